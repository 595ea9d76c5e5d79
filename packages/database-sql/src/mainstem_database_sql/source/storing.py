"""Files of rows that were read: whole and safe on disk, or not there at all.

A file is Parquet, whose pages have checksums, and after it one of Parquet's footer. It comes under its
name only after it is safe, and is never changed, so what is read from it is the same for ever. It is
written and read in parts, so that memory stays flat.
"""

from __future__ import annotations

import fcntl
import io
import os
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from mainstem import PipelineError, failpoint
from mainstem.columns import Column
from mainstem.durable import DamagedError, open_private, sync_folder

from mainstem_database_sql.source.values import schema_of

SUFFIX = ".parquet"
_NEW = ".new"
_TABLE = b"mainstem.table"
#: The most rows in a batch that goes to Spark.
_ROWS = 4_000
#: A task reads at least so many rows, where there are enough.
_TASK_ROWS = 20_000


class Rows(NamedTuple):
    """Rows of a file, from one number up to another."""

    file: Path
    first: int
    end: int


def write(
    file: Path, columns: Sequence[Column], table: str, parts: Iterable[pa.RecordBatch], points: str
) -> int:
    """Write rows into a file; it is there for good when this returns. Returns how many there were.

    Args:
        file: in a folder that is there; what is there under the name is replaced.
        columns: of the rows.
        table: where they are from, kept for `check`.
        parts: taken one by one, and each let go before the next.
        points: what the names of the crash points begin with.

    Raises:
        PipelineError: it could not be written; nothing is left of it.
    """
    new = file.with_suffix(_NEW)
    schema = schema_of(columns).with_metadata({_TABLE: table.encode()})
    failpoint(f"{points}-before-write")
    rows = 0
    try:
        with open_private(new) as written:
            with pq.ParquetWriter(
                written, schema, compression="zstd", write_page_checksum=True
            ) as writer:
                for part in parts:
                    writer.write_batch(part, row_group_size=max(1, part.num_rows))
                    rows += part.num_rows
                    failpoint(f"{points}-in-write")
            failpoint(f"{points}-after-write")
            written.flush()
            written.write(_ending(new))
            written.flush()
            os.fsync(written.fileno())
        failpoint(f"{points}-after-fsync")
        new.rename(file)
        failpoint(f"{points}-after-rename")
        sync_folder(file.parent)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise PipelineError(f"{file} can't be written: {error.strerror or error}") from None
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    failpoint(f"{points}-after-folder-fsync")
    return rows


def remove_unfinished(folder: Path) -> None:
    """Remove what a crash left of files that were never finished."""
    for file in folder.glob(f"*{_NEW}"):
        file.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes; it is free again when this one ends in any way."""
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# -- reading ----------------------------------------------------------------------------------


def count(file: Path) -> int:
    """Return how many rows a file has.

    Raises:
        PipelineError: it is gone, or damaged.
    """
    with _opened(file) as opened:
        return int(opened.metadata.num_rows)


def check(file: Path) -> None:
    """Read a file whole.

    Raises:
        PipelineError: it is gone, or damaged.
    """
    with _opened(file) as opened:
        for number in range(opened.num_row_groups):
            opened.read_row_group(number)


def misfit(file: Path, columns: Sequence[Column], table: str) -> str:
    """Return how a file differs from what is to be read, in words; empty if it does not."""
    with _opened(file) as opened:
        schema = opened.schema_arrow
    there = (schema.metadata or {}).get(_TABLE, b"").decode()
    if there != table:
        return f"has rows of the table {there}"
    if not schema.equals(schema_of(columns)):
        return "has other columns: " + ", ".join(f"{f.name} {f.type}" for f in schema)
    return ""


def split(rows: Sequence[Rows], tasks: int, least: int = _TASK_ROWS) -> list[Rows]:
    """Cut ranges of rows for tasks; each gets some of them, `least` at least."""
    found = []
    for each in rows:
        size = each.end - each.first
        parts = max(1, min(tasks, size // least))
        cuts = [each.first + size * part // parts for part in range(parts + 1)]
        found += [Rows(each.file, a, b) for a, b in pairwise(cuts) if b > a]
    return found


def read(
    file: Path, first: int, end: int, schema: pa.Schema
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a file from one number up to another, as batches of a schema.

    Raises:
        PipelineError: it is gone, or damaged.
    """
    with _opened(file) as opened:
        before = 0
        for number in range(opened.num_row_groups):
            rows = int(opened.metadata.row_group(number).num_rows)
            low, high = max(first - before, 0), min(end - before, rows)
            if low < high:
                group = opened.read_row_group(number).slice(low, high - low)
                yield from group.cast(schema).to_batches(max_chunksize=_ROWS)
            before += rows
            if before >= end:
                return


@contextmanager
def _opened(file: Path) -> Iterator[pq.ParquetFile]:
    try:
        with (
            _Body(file) as body,
            pq.ParquetFile(body, page_checksum_verification=True) as opened,
        ):
            yield opened
    except FileNotFoundError:
        raise PipelineError(f"{file} is gone, and its rows are still to be read") from None
    except DamagedError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{file} can't be read: {error}") from None


class _Body(io.FileIO):
    """A file without its last bytes, which it is compared with.

    Raises:
        DamagedError: Parquet's footer is not what was written.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._size = max(0, os.fstat(self.fileno()).st_size - _CHECKSUM)
        super().seek(self._size)
        if not self._size or super().read() != _ending(file, self._size):
            self.close()
            raise DamagedError(
                f"{file} was changed after it was written: bring the checkpoint back from a copy, or "
                "start over with `--fresh`"
            )
        super().seek(0)

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_END:
            position, whence = self._size + position, os.SEEK_SET
        return super().seek(position, whence)


def _ending(file: Path, size: int | None = None) -> bytes:
    """Return what follows Parquet's bytes: the checksum (CRC-32) of its footer, whose size ends it."""
    with file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size if size is None else size
        opened.seek(max(0, size - _TAIL))
        tail = opened.read(min(size, _TAIL))
        footer = int.from_bytes(tail[:4], "little")
        opened.seek(max(0, size - _TAIL - footer))
        return zlib.crc32(opened.read(min(size, footer + _TAIL))).to_bytes(_CHECKSUM, "big")


#: The bytes of the checksum, and of what ends a Parquet file: the footer's size and a mark.
_CHECKSUM, _TAIL = 4, 8
