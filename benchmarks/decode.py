"""Rows per second of `decode` against Spark's own functions over the same values. Goal: >= 0.95 for json.

Spark's functions round, guess and cut where `decode` refuses; they are what one would write by hand.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from mainstem.builtin.decode import Decode
from mainstem.contracts.shapes import Inputs
from mainstem.registry import Registry
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

ROWS = 400_000
ROUNDS = 5
PLAIN = "order_id STRING, city STRING, placed TIMESTAMP, cents BIGINT"
MIXED = f"{PLAIN}, price DECIMAL(12,2), lat DOUBLE"
KEPT = "__corrupt STRING"


class Context:
    """What `decode` is handed."""

    node = "row"
    wanted = frozenset(["rejected"])


def session() -> SparkSession:
    """Return a session such as a run has."""
    import os
    import sys

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    made = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return made.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def values(spark: SparkSession, kind: str, schema: str) -> DataFrame:
    """Return values to decode, kept in memory."""
    rows = spark.range(ROWS).selectExpr(
        "concat('o', id) AS order_id",
        "'Oslo' AS city",
        "timestamp_seconds(1700000000 + id) AS placed",
        "id * 7 AS cents",
        "CAST(id / 100 AS DECIMAL(12,2)) AS price",
        "59.9 + id / 1e7 AS lat",
    )
    names = ", ".join(part.split()[0] for part in schema.split(", "))
    text = f"to_{kind}(struct({names}))"
    made = rows.selectExpr(f"CAST({text} AS BINARY) AS value").coalesce(2).cache()
    made.count()
    return made


def by_hand(frame: DataFrame, kind: str, schema: str) -> DataFrame:
    """Return what one would write with Spark's own functions."""
    settings = "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '__corrupt')"
    parsed = f"from_{kind}(CAST(value AS STRING), '{schema}, {KEPT}', {settings}) AS p"
    return frame.selectExpr(parsed).where("p.__corrupt IS NULL").select("p.*").drop("__corrupt")


def decoded(frame: DataFrame, kind: str, schema: str) -> DataFrame:
    """Return what `decode` makes of the values."""
    given = {"format": kind, "schema": schema}
    options: Any = Decode.options_for(given, Registry().component).model_validate(given)
    context: Any = Context()
    made = Decode(options).apply(Inputs({"input": frame}), context)
    return made.where("_output IS NULL").drop("_output", "_rejected")


def seconds(frame: DataFrame) -> float:
    """Return how long it takes to compute all of a frame."""
    began = time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def main() -> None:
    """Time both sides in turn."""
    spark = session()
    table = Table(title=f"decode: {ROWS:,} rows", title_justify="left")
    for column in ("values", "decode, rows/s", "by hand, rows/s", "ratio"):
        table.add_column(column, justify="right")
    for name, kind, schema in (
        ("json", "json", PLAIN),
        ("json, decimals", "json", MIXED),
        ("csv", "csv", PLAIN),
        ("csv, decimals", "csv", MIXED),
    ):
        frame = values(spark, kind, schema)
        found = []
        for number in range(ROUNDS + 1):
            ours, hand = (
                seconds(decoded(frame, kind, schema)),
                seconds(by_hand(frame, kind, schema)),
            )
            if number:  # the first is for warming up
                found.append((ROWS / ours, ROWS / hand, hand / ours))
        middle = tuple(median(column) for column in zip(*found, strict=True))
        table.add_row(name, f"{middle[0]:,.0f}", f"{middle[1]:,.0f}", f"{middle[2]:.2f}")
        frame.unpersist()
    Console().print(table)
    spark.stop()


if __name__ == "__main__":
    main()
