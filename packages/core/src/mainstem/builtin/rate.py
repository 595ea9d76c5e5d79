"""Source `rate`: rows at a steady rate, for trying things out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem import Events, Options, Source, SourceCapabilities, SourceContext, option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RateOptions(Options):
    """Options of `rate`."""

    rows_per_second: int = option(10, gt=0, description="Rows made each second.")


class Rate(Source):
    """Makes rows at a steady rate: a number that counts up, and the time it was made."""

    options: RateOptions
    capabilities = SourceCapabilities(ordered=False)

    def shape(self) -> Events:
        return Events("timestamp TIMESTAMP, value BIGINT", identity=["value"])

    def load(self, ctx: SourceContext) -> DataFrame:
        return ctx.read_stream("rate", rowsPerSecond=self.options.rows_per_second)
