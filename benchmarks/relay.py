"""Rows through a relay, against a pair of Spark queries by hand over Parquet files. Goal: >= 0.8.

Both take the same files, all that is there at once, and write them as Parquet; the second query begins
when the first has ended.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mainstem.plan.build import make_plan
from mainstem.run.runner import run
from mainstem.run.session import start
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, FILES = 8_000_000, 8
ROUNDS = 3  # the first warms up
SCHEMA = "k STRING, at TIMESTAMP, n BIGINT, text STRING"
GOAL = 0.8


def make_input(spark: SparkSession, folder: Path) -> None:
    """Write rows of some 100 bytes."""
    rows = spark.range(0, ROWS, 1, FILES).selectExpr(
        "concat('key ', id % 10000) AS k",
        "timestamp_micros(1767225600000000 + id * 1000) AS at",
        "id AS n",
        "concat(sha1(cast(id AS STRING)), sha1(cast(-id AS STRING))) AS text",
    )
    rows.write.parquet(folder.as_uri())


def document(folder: Path) -> dict[str, Any]:
    """Return the document: the relay is asked for."""
    given = {"path": str(folder / "in"), "format": "parquet", "schema": SCHEMA}
    return {
        "pipeline": "relay",
        "checkpoint": str(folder / "work"),
        "trigger": {"available_now": True},
        "spark": {"master": "local[2]", "conf": {"spark.ui.enabled": False}},
        "sources": {"rows": {"use": "files", "with": given, "relay": True}},
        "sinks": {
            "out": {
                "use": "files",
                "from": "rows",
                "with": {"path": str(folder / "work" / "out"), "format": "parquet"},
            }
        },
    }


def by_hand(spark: SparkSession, folder: Path) -> None:
    """Pass the rows on as Parquet, then write what is there."""
    between, work = (folder / "work" / "between").as_uri(), folder / "work"
    rows = spark.readStream.name("rows").schema(SCHEMA).parquet((folder / "in").as_uri())
    first = rows.writeStream.format("parquet").option("checkpointLocation", str(work / "one"))
    first.trigger(availableNow=True).start(between).awaitTermination()

    def write(frame: Any, batch: int) -> None:
        frame.write.parquet((work / "out" / str(batch)).as_uri())

    again = spark.readStream.name("again").schema(SCHEMA).parquet(between)
    second = again.writeStream.foreachBatch(write).option("checkpointLocation", str(work / "two"))
    second.trigger(availableNow=True).start().awaitTermination()


def measured(folder: Path, work: Callable[[], Any]) -> float:
    """Return how long some work takes, in seconds; its folder is empty before."""
    shutil.rmtree(folder / "work", ignore_errors=True)
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Run both sides in turn and print a table."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        plan = make_plan(document(folder))
        spark = start(plan)
        make_input(spark, folder / "in")
        table = Table(title=f"{ROWS:,} rows by a relay", title_justify="left")
        for column in ("round", "relay, rows/s", "by hand, rows/s", "ratio"):
            table.add_column(column, justify="right")
        ratios = []
        for number in range(ROUNDS):
            relay = measured(folder, lambda: run(make_plan(document(folder))))
            written = spark.read.parquet(f"{(folder / 'work' / 'out').as_uri()}/*").count()
            assert written == ROWS, written
            hand = measured(folder, lambda: by_hand(spark, folder))
            table.add_row(
                str(number), f"{ROWS / relay:,.0f}", f"{ROWS / hand:,.0f}", f"{hand / relay:.2f}"
            )
            ratios.append(hand / relay)
        table.add_section()
        table.add_row("median of the last", "", "", f"{median(ratios[1:]):.2f}", style="bold")
        console.print(table)
        console.print(f"goal: >= {GOAL}")
        spark.stop()


if __name__ == "__main__":
    main()
