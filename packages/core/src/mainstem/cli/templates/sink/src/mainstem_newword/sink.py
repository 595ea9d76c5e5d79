"""Sink `newword`: each batch is one file of JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainstem import (
    EVENTS,
    Batch,
    LocalPath,
    OptionError,
    Options,
    Shape,
    Sink,
    SinkCapabilities,
    Typed,
    option,
)
from mainstem.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HELD = {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string"}


class NewWordOptions(Options):
    """Options of `newword`."""

    path: LocalPath = option(description="The folder to write into.", example="./out")


class NewWordSink(Sink, Typed):
    """Writes each batch as one file of JSON lines; a retry replaces the file."""

    options: NewWordOptions
    accepts = EVENTS
    capabilities = SinkCapabilities(replaces_batch=True)

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse what JSON has no value for, before the first batch."""
        for column in columns:
            if column.type is not None and column.type not in _HELD:
                raise OptionError(f"can't hold column {column.name}, of type {column.type}")

    def write(self, frame: DataFrame, batch: Batch) -> None:
        """Write a batch beside its file, then put it in place at once.

        The name is the batch's and the sink's own: whoever writes the batch again writes the same
        file, and another sink of the query never does.
        """
        folder = self.options.path
        folder.mkdir(parents=True, exist_ok=True)
        final = folder / f"{batch.query_id}-{batch.sink}-{batch.id:010d}.jsonl"
        part = final.with_suffix(".part")
        lines = frame.selectExpr("to_json(struct(*)) AS line")
        with part.open("w", encoding="utf-8") as file:
            file.writelines(f"{row['line']}\n" for row in lines.toLocalIterator())
        part.replace(final)
