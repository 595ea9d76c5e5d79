"""Sink `console`: prints rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from mainstem import Batch, Options, Sink, option

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class ConsoleOptions(Options):
    """Options of `console`."""

    rows: int = option(20, gt=0, description="The most rows printed of one batch.")


class Console(Sink):
    """Prints the rows of each batch on standard output, one JSON line a row."""

    options: ConsoleOptions

    def write(self, frame: DataFrame, batch: Batch) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        most = self.options.rows
        times = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX"}
        rows = frame.select(F.to_json(F.struct("*"), times).alias("row"))
        found = first_of_each(rows, most + 1).collect()
        for row in found[:most]:
            line = {"sink": batch.sink, "batch": batch.id, "row": json.loads(row["row"])}
            print(json.dumps(line), file=sys.stdout)
        if len(found) > most:
            line = {"sink": batch.sink, "batch": batch.id, "more": f"only {most} rows are shown"}
            print(json.dumps(line), file=sys.stdout)
        sys.stdout.flush()


def first_of_each(frame: DataFrame, most: int) -> DataFrame:
    """Return the first rows of each partition; reading them evaluates all rows, once."""
    return frame.mapInArrow(partial(_first, most=most), frame.schema)


def _first(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if most > 0:
            yield batch.slice(0, most)
            most -= batch.num_rows
