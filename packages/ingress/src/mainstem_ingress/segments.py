"""Segments: immutable files of messages, each whole or not there at all.

A segment is an Arrow IPC file `NUMBER.arrow` with one record batch and, in its schema's metadata, one
JSON object (`Header`). Numbers count from 0 within a receiver's folder. What is written comes under
its name only after it is safe on disk, so a crash leaves at most a file of another name.

An `NUMBER.ids` has the same header and the ids alone: what is left of a segment that was removed
within the horizon of duplicates.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from mainstem import failpoint

from mainstem_ingress.errors import LogError
from mainstem_ingress.messages import Message

FORMAT = 1
SUFFIX = ".arrow"
IDS_SUFFIX = ".ids"
_NEW_SUFFIX = ".new"
_HEADER = b"mainstem"

#: The name of the column with why a message was refused; null for all others.
REASON = "_reason"
#: The name of the column with the hash of a message's id; null where it had none.
ID = "_id16"

_COLUMNS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", pa.map_(pa.string(), pa.binary())),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("origin", pa.string()),
    pa.field(REASON, pa.string()),
)


@dataclass(frozen=True)
class Header:
    """What a segment says of itself.

    `rows_before` and `bytes_before` are of all segments of the folder before this one, so that sums
    over a range need a look at its ends alone. `created` is in seconds since 1970.
    """

    number: int
    rows: int
    rows_before: int
    bytes_before: int
    created: float
    cursor: str | None = None
    format: int = FORMAT


def schema_of(extra: Sequence[pa.Field[Any]] = ()) -> pa.Schema:
    """Return the columns of segments, with those that a source adds."""
    return pa.schema([*_COLUMNS, *extra, pa.field(ID, pa.binary(16))])


def as_batch(
    messages: Sequence[Message], ids: Sequence[bytes | None] | None, schema: pa.Schema
) -> pa.RecordBatch:
    """Return messages as a record batch; `ids` are the hashes of their ids, None for none at all."""
    count = len(messages)
    value, key, headers, timestamp, origin, _, _, _, refused, extra = zip(*messages, strict=True)
    now = time.time_ns() // 1000
    arrays = [
        _array(key, pa.binary()),
        pa.array(value, pa.binary()),
        _maps(headers),
        pa.array([now if t is None else t for t in timestamp], pa.int64()).cast(
            pa.timestamp("us", "UTC")
        ),
        pa.array(origin, pa.string()),
        _array(refused, pa.string()),
        *(
            pa.array(column, schema.field(len(_COLUMNS) + index).type)
            for index, column in enumerate(zip(*extra, strict=True))
        ),
        pa.nulls(count, pa.binary(16)) if ids is None else pa.array(ids, pa.binary(16)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[bytes | str | None], kind: Any) -> Any:
    if values.count(None) == len(values):
        return pa.nulls(len(values), kind)
    return pa.array(values, kind)


def _maps(headers: Sequence[Sequence[tuple[str, bytes]] | None]) -> Any:
    if not any(headers):
        kind: Any = pa.map_(pa.string(), pa.binary())
        return pa.nulls(len(headers), kind)
    offsets: list[int | None] = [0]
    names: list[str] = []
    values: list[bytes] = []
    for pairs in headers:
        if pairs:
            found = dict(pairs)
            names += found
            values += found.values()
        offsets.append(len(names))
    for index, pairs in enumerate(headers):
        if pairs is None:
            offsets[index] = None
    starts: Any = pa.array(offsets, pa.int32())
    return pa.MapArray.from_arrays(
        starts, pa.array(names, pa.string()), pa.array(values, pa.binary())
    )


# -- files ------------------------------------------------------------------------------------


def file_of(folder: Path, number: int, suffix: str = SUFFIX) -> Path:
    """Return where a segment is, or is to be."""
    return folder / f"{number:012d}{suffix}"


def numbers(folder: Path, suffix: str = SUFFIX) -> list[int]:
    """Return the numbers of the segments that are there, in order."""
    with os.scandir(folder) as files:
        return sorted(
            int(file.name[:12])
            for file in files
            if file.name.endswith(suffix) and file.name[:12].isdigit()
        )


def write(folder: Path, header: Header, batch: pa.RecordBatch, suffix: str = SUFFIX) -> int:
    """Write a segment; it is there for good when this returns. Returns its size in bytes.

    Raises:
        OSError: it could not be written (the disk is full); nothing is left of it.
    """
    new = file_of(folder, header.number, suffix + _NEW_SUFFIX)
    schema = batch.schema.with_metadata({_HEADER: json.dumps(asdict(header)).encode()})
    failpoint("ingress.before-write")
    try:
        with new.open("wb") as file:
            with pa.ipc.new_file(file, schema) as writer:
                writer.write_batch(batch)
            failpoint("ingress.after-write")
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    failpoint("ingress.after-fsync")
    new.rename(file_of(folder, header.number, suffix))
    failpoint("ingress.after-rename")
    sync_folder(folder)
    failpoint("ingress.after-folder-fsync")
    return size


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def remove_torn(folder: Path) -> None:
    """Remove what a crash left of files that were never finished."""
    for file in folder.glob(f"*{_NEW_SUFFIX}"):
        file.unlink()


def open_segment(file: Path) -> tuple[Header, pa.RecordBatch]:
    """Return a segment's header and its rows, which stay on disk until they are touched.

    Raises:
        LogError: it is gone, damaged, or of a version that this one does not read.
    """
    try:
        with pa.memory_map(str(file)) as mapped:
            reader = pa.ipc.open_file(mapped)
            header = _header(file, reader.schema.metadata)
            batch = reader.get_batch(0)
    except FileNotFoundError:
        raise LogError(f"the segment {file} is gone, and was not read yet") from None
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise LogError(f"the segment {file} can't be read: {error}") from None
    if batch.num_rows != header.rows:
        message = f"the segment {file} has {batch.num_rows} rows, and says {header.rows}"
        raise LogError(message)
    return header, batch


def read_header(file: Path) -> Header:
    """Return a segment's header; raises as `open_segment` does."""
    try:
        with pa.memory_map(str(file)) as mapped:
            return _header(file, pa.ipc.open_file(mapped).schema.metadata)
    except FileNotFoundError:
        raise LogError(f"the segment {file} is gone, and was not read yet") from None
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise LogError(f"the segment {file} can't be read: {error}") from None


def _header(file: Path, metadata: Mapping[bytes, bytes] | None) -> Header:
    found = json.loads((metadata or {})[_HEADER])
    if found.get("format") != FORMAT:
        raise LogError(
            f"the segment {file} has format {found.get('format')}, and this version reads {FORMAT}; "
            "read it with the version of mainstem-ingress that wrote it"
        )
    return Header(**found)
