"""Sink `console`: prints rows."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from mainstem import Batch, Options, Sink, option

if TYPE_CHECKING:
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
        found = frame.select(F.to_json(F.struct("*"), times).alias("row")).take(most + 1)
        for row in found[:most]:
            line = {"sink": batch.sink, "batch": batch.id, "row": json.loads(row["row"])}
            print(json.dumps(line), file=sys.stdout)
        if len(found) > most:
            line = {"sink": batch.sink, "batch": batch.id, "more": f"only {most} rows are shown"}
            print(json.dumps(line), file=sys.stdout)
        sys.stdout.flush()
