"""Writes rows as Parquet files of a table, which nobody reads yet."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mainstem_lake.options import LakeOptions
from mainstem_lake.table import File, Room, fitted

#: What a task tells of each file.
FILES = "path STRING, size BIGINT, partition STRING, footer BINARY"
#: The folder of a null, as Hive has it.
NULL = "__HIVE_DEFAULT_PARTITION__"
#: How many files a task has open at a time.
_OPEN = 64
#: Of names of folders file systems take 255 bytes.
_LONGEST = 200


def write_files(
    room: Room, options: LakeOptions, schema: bytes, partition_by: Sequence[str], prefix: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Write the rows of a task; yield what the files are.

    Args:
        schema: the table's columns, as Arrow's message.
        partition_by: those whose values are folders.
        prefix: of the files' names.
    """
    kinds = pa.ipc.read_schema(pa.py_buffer(schema))
    found = written(room, options, kinds, partition_by, prefix, batches)
    if found:
        columns = [
            [each.path for each in found],
            [each.size for each in found],
            [json.dumps(each.partition) for each in found],
            [each.footer for each in found],
        ]
        types = [pa.string(), pa.int64(), pa.string(), pa.binary()]
        made: Any = pa.array
        arrays = [made(c, k) for c, k in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, ["path", "size", "partition", "footer"])


def written(
    room: Room, options: LakeOptions, schema: pa.Schema, partition_by: Sequence[str], prefix: str,
    batches: Iterable[pa.RecordBatch],
) -> list[File]:  # fmt: skip
    """Write rows, and return what the files are."""
    writer = _Files(room, options, schema, partition_by, prefix)
    for batch in batches:
        if batch.num_rows:
            writer.write(batch)
    return writer.end()


class _Files:
    """The files of a task, one for each value of the partition columns at a time."""

    def __init__(
        self, room: Room, options: LakeOptions, schema: pa.Schema, partition_by: Sequence[str],
        prefix: str,
    ) -> None:  # fmt: skip
        self._room, self._options = room, options
        self._partition_by = list(partition_by)
        self._schema = schema
        left = [] if room.parts_in_files else partition_by
        self._kept = pa.schema([f for f in schema if f.name not in left])
        self._prefix = prefix
        self._open: dict[tuple[str | None, ...], _File] = {}
        self._done: list[File] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        table = fitted(pa.Table.from_batches([batch]), self._schema)
        if not self._partition_by:
            self._put("", {}, table)
            return
        groups = table.group_by(self._partition_by).aggregate([]).to_pylist()
        left = table.num_rows
        for values in groups:
            mine = table
            for name, value in values.items():
                column = mine.column(name)
                same: Any = pc.is_null(column) if value is None else pc.equal(column, value)
                whole: Any = pc.fill_null(same, pa.scalar(False))
                mine = mine.filter(whole)
            left -= mine.num_rows
            partition = {name: _text(value) for name, value in values.items()}
            folder = "".join(f"{quote(n, safe='')}={_place(v)}/" for n, v in partition.items())
            self._put(folder, partition, mine.select(self._kept.names))
        assert not left, "rows that are of no partition"  # noqa: S101

    def _put(self, folder: str, partition: dict[str, str | None], rows: pa.Table) -> None:
        # A null and a text may have one folder.
        place = tuple(partition.values())
        while rows.num_rows:
            file = self._open.get(place)
            if file is None:
                while len(self._open) >= _OPEN:
                    self._close(next(iter(self._open)))
                name = f"{folder}{self._prefix}-{uuid.uuid4().hex}.parquet"
                file = _File(self._room, self._options.compression, name, partition, self._kept)
                self._open[place] = file
            fit = self._options.file_rows - file.rows
            file.write(rows.slice(0, fit))
            rows = rows.slice(fit)
            if file.rows >= self._options.file_rows:
                self._close(place)

    def _close(self, place: tuple[str | None, ...]) -> None:
        self._done.append(self._open.pop(place).end())

    def end(self) -> list[File]:
        """Close all files, and return them."""
        for place in list(self._open):
            self._close(place)
        return self._done


def _place(value: str | None) -> str:
    """Return the name of a partition's folder; tables tell values otherwise, so it need not be one."""
    if value is None:
        return NULL
    name = quote(value, safe="")
    return name if len(name) <= _LONGEST else hashlib.sha256(value.encode()).hexdigest()


class _File:
    """A file that is being written."""

    def __init__(
        self, room: Room, compression: Any, path: str, partition: dict[str, str | None],
        schema: pa.Schema,
    ) -> None:  # fmt: skip
        self._room, self._path, self._partition = room, path, partition
        self._stream = room.open(path)
        self._told: list[Any] = []
        self._writer = pq.ParquetWriter(
            self._stream, schema, compression=compression, metadata_collector=self._told
        )
        self.rows = 0

    def write(self, rows: pa.Table) -> None:
        """Write rows."""
        self._writer.write_table(rows)
        self.rows += rows.num_rows

    def end(self) -> File:
        """Close it, and say what it is."""
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        self._room.keep(self._path)
        footer = pa.BufferOutputStream()
        self._told[0].write_metadata_file(footer)
        return File(self._path, size, self._partition, footer.getvalue().to_pybytes())


def _text(value: Any) -> str | None:
    """Return a partition's value as a text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)
