"""Source `newword`: the same number of rows in each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem import Events, Options, Source, SourceCapabilities, SourceContext, option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class NewWordOptions(Options):
    """Options of `newword`."""

    rows: int = option(10, gt=0, description="Rows in each batch.")
    greeting: str = option("hello", description="What the text begins with.", example="good day")


class NewWordSource(Source):
    """Makes rows: a number that counts up from 0, and a text."""

    options: NewWordOptions
    capabilities = SourceCapabilities(replayable=True)

    def shape(self) -> Events:
        """Return the columns, and which of them tells a row from every other."""
        return Events("number BIGINT, text STRING", identity=["number"])

    def load(self, ctx: SourceContext) -> DataFrame:
        """Return the stream; Spark asks for the same range again after a crash."""
        from pyspark.sql.functions import col, concat, lit

        rows = ctx.read_stream("rate-micro-batch", rowsPerBatch=self.options.rows)
        text = concat(lit(f"{self.options.greeting} "), "value")
        return rows.select(col("value").alias("number"), text.alias("text"))
