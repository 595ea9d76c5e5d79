"""Writes the rows of a task as Parquet files of a Delta table, which nobody reads yet."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mainstem_lake_delta.options import DeltaOptions
from mainstem_lake_delta.table import File, filesystem

#: What a task tells of each file.
FILES = "path STRING, size BIGINT, partition STRING, stats STRING"
#: The folder of a null, as Hive has it.
_NULL = "__HIVE_DEFAULT_PARTITION__"
#: Texts in statistics are no longer.
_LONGEST = 32
#: How many files a task has open at a time.
_OPEN = 64


def write_files(
    options: DeltaOptions, schema: bytes, partition_by: Sequence[str], prefix: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Write rows; yield what the files are.

    Args:
        schema: the table's columns, as Arrow's message.
        partition_by: those whose values are folders.
        prefix: of the files' names.
    """
    writer = _Files(options, pa.ipc.read_schema(pa.py_buffer(schema)), partition_by, prefix)
    for batch in batches:
        if batch.num_rows:
            writer.write(batch)
    found = writer.end()
    if found:
        columns = [
            [each.path for each in found],
            [each.size for each in found],
            [json.dumps(each.partition) for each in found],
            [each.stats for each in found],
        ]
        kinds = [pa.string(), pa.int64(), pa.string(), pa.string()]
        made: Any = pa.array
        arrays = [made(c, k) for c, k in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, ["path", "size", "partition", "stats"])


class _Files:
    """The files of a task, one for each value of the partition columns at a time."""

    def __init__(
        self, options: DeltaOptions, schema: pa.Schema, partition_by: Sequence[str], prefix: str
    ) -> None:
        self._options = options
        self._files = filesystem(options)
        self._partition_by = list(partition_by)
        self._schema = schema
        self._kept = pa.schema([f for f in schema if f.name not in partition_by])
        self._prefix = prefix
        self._open: dict[str, _File] = {}
        self._done: list[File] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        table = fitted(pa.Table.from_batches([batch]), self._schema)
        if not self._partition_by:
            self._put("", {}, table)
            return
        groups = table.group_by(self._partition_by).aggregate([]).to_pylist()
        for values in groups:
            mine = table
            for name, value in values.items():
                column = mine.column(name)
                same: Any = pc.is_null(column) if value is None else pc.equal(column, value)
                whole: Any = pc.fill_null(same, pa.scalar(False))
                mine = mine.filter(whole)
            partition = {name: _text(value) for name, value in values.items()}
            folder = "".join(
                f"{quote(n, safe='')}={_NULL if v is None else quote(v, safe='')}/"
                for n, v in partition.items()
            )
            self._put(folder, partition, mine.select(self._kept.names))

    def _put(self, folder: str, partition: dict[str, str | None], rows: pa.Table) -> None:
        file = self._open.get(folder)
        if file is None:
            while len(self._open) >= _OPEN:
                self._close(next(iter(self._open)))
            name = f"{folder}{self._prefix}-{uuid.uuid4().hex}.parquet"
            file = _File(self._options, self._files, name, partition, self._kept)
            self._open[folder] = file
        file.write(rows)
        if file.rows >= self._options.file_rows:
            self._close(folder)

    def _close(self, folder: str) -> None:
        self._done.append(self._open.pop(folder).end())

    def end(self) -> list[File]:
        """Close all files, and return them."""
        for folder in list(self._open):
            self._close(folder)
        return self._done


class _File:
    """A file that is being written."""

    def __init__(
        self, options: DeltaOptions, files: Any, name: str, partition: dict[str, str | None],
        schema: pa.Schema,
    ) -> None:  # fmt: skip
        self._options, self._files, self._name = options, files, name
        self._partition, self._schema = partition, schema
        if options.path is not None and "/" in name:
            files.create_dir(name.rpartition("/")[0], recursive=True)
        self._sink = files.open_output_stream(name)
        self._told: list[Any] = []
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression=options.compression, metadata_collector=self._told
        )
        self.rows = 0

    def write(self, rows: pa.Table) -> None:
        """Write rows."""
        self._writer.write_table(rows)
        self.rows += rows.num_rows

    def end(self) -> File:
        """Close it, sync it, and say what it is."""
        self._writer.close()
        self._sink.close()
        if self._options.path is not None:
            _sync(str(self._options.path / self._name))
            _sync(str((self._options.path / self._name).parent))
        size = self._files.get_file_info(self._name).size
        stats = statistics(self._told[0], self.rows)
        return File(self._name, size, self._partition, stats)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the columns of a table, null where they lack one."""
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(table.column(field.name).cast(field.type))
        else:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
    return pa.Table.from_arrays(columns, schema=schema)


def _text(value: Any) -> str | None:
    """Return a partition's value as the log has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def statistics(told: Any, rows: int) -> str:
    """Return what is said of a file's rows: least and greatest of plain columns, and nulls."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(told.num_columns):
        chunks = [told.row_group(group).column(at) for group in range(told.num_row_groups)]
        name = chunks[0].path_in_schema
        known = [chunk.statistics for chunk in chunks]
        if "." in name or any(each is None for each in known):
            continue
        if all(each.has_null_count for each in known):
            nulls[name] = sum(each.null_count for each in known)
        if all(each.has_min_max and _plain(each) for each in known):
            least[name] = _shown(min(each.min for each in known))
            greatest[name] = _shown(max(each.max for each in known))
    found: Mapping[str, Any] = {
        "numRecords": rows, "minValues": least, "maxValues": greatest, "nullCount": nulls,
    }  # fmt: skip
    return json.dumps(found)


def _plain(known: Any) -> bool:
    values = (known.min, known.max)
    if all(isinstance(value, str) for value in values):
        return all(len(value) <= _LONGEST for value in values)
    return all(type(value) in (int, date) for value in values)


def _shown(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
