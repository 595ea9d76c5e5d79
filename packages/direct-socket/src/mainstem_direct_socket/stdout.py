"""Sink `stdout`: rows as JSON lines on standard output, and nothing else there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainstem import (
    Batch,
    Level,
    OptionError,
    PipelineError,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    Typed,
)
from mainstem.columns import Column, json_sql, odd_key

from mainstem_direct_socket.options import StdoutOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StdoutSink(Sink, Typed):
    """Prints each row as a line of JSON, for the next program of a shell pipeline."""

    options: StdoutOptions
    capabilities = SinkCapabilities(
        prints=True,
        shown={
            "microbatch": Shown(Level.AT_LEAST_ONCE, "packages/direct-socket/tests/test_shell.py")
        },
    )

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse maps whose keys are no keys of JSON."""
        for column in columns:
            if odd_key(column.type or ""):
                raise OptionError(
                    f"JSON can't hold column {column.name}, of type {column.type}: keys of maps are text",
                    hint="Give the map keys of text.",
                )

    def write(self, frame: DataFrame, batch: Batch) -> None:
        names = [name for name in frame.columns if not name.startswith("_")]
        lines = frame.selectExpr(f"{json_sql(names)} AS line")
        out = sys.stdout.buffer  # JSON is UTF-8, whatever is the custom here
        try:
            for row in lines.toLocalIterator(prefetchPartitions=True):
                out.write(f"{row['line']}\n".encode())
            out.flush()
        except BrokenPipeError:
            raise PipelineError("nobody reads standard output any more") from None
