"""Reads back what the sink `files` has written."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mainstem.contracts.ddl import Column
from mainstem.errors import PipelineError

_READ: Mapping[str, Callable[[Any], Any]] = {
    "binary": base64.b64decode,
    "timestamp": datetime.fromisoformat,
}


def stored_rows(path: Path, form: str, columns: Sequence[Column]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a folder of batches, each with some of its columns.

    Raises:
        PipelineError: the format has no types (csv).
    """
    if form == "csv":
        raise PipelineError(f"{path}: csv is not read back: write parquet or jsonlines")
    pattern = "*/**/*.parquet" if form == "parquet" else "*/**/*.json*"
    for file in sorted(path.glob(pattern)):
        folders = dict(part.split("=", 1) for part in file.relative_to(path).parts if "=" in part)
        given = {name: unquote(value) for name, value in folders.items()}
        for row in _parquet(file) if form == "parquet" else _lines(file, columns):
            yield {**given, **row}


def _parquet(file: Path) -> Iterator[Mapping[str, Any]]:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(file).iter_batches():
        yield from batch.to_pylist()


def _lines(file: Path, columns: Sequence[Column]) -> Iterator[Mapping[str, Any]]:
    readers = {c.name: _READ[c.type] for c in columns if c.type is not None and c.type in _READ}
    if file.suffix not in (".json", ".gz"):
        raise PipelineError(f"{file} is compressed by {file.suffix[1:]}: only gzip is read back")
    read: Callable[..., Any] = gzip.open if file.suffix == ".gz" else open
    with read(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield {
                name: readers[name](value) if name in readers and value is not None else value
                for name, value in row.items()
            }
