"""Time of a task that decodes ten rows: Mainstem's daemon of Python workers beside Spark's own.

Tasks follow on each other, as those of a batch do. Each side is a session of its own, in turn, as one
session has one daemon. Spark's own `from_json` over the same rows is beside both. Goal: <= 0.8 times
Spark's daemon.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from statistics import median
from typing import Any

from mainstem.builtin.decoding import Decoding
from mainstem.builtin.formats.json import JsonReader
from mainstem.contracts.ddl import Column
from rich.console import Console
from rich.table import Table

ROWS, TASKS, SKIP, ROUNDS, GOAL = 10, 60, 20, 5, 0.8
DAEMONS = ("pyspark.daemon", "mainstem.run.worker_daemon")
SCHEMA = "id BIGINT, city STRING, placed TIMESTAMP, cents BIGINT"
COLUMNS = tuple(Column(*each.lower().split()) for each in SCHEMA.split(", "))


def frames(spark: Any) -> dict[str, Any]:
    """Return what is written, by what reads the rows."""
    from pyspark.sql import functions as F  # noqa: N812

    line = '{"id":%d,"city":"city-7","placed":"2026-01-01T00:00:00Z","cents":5}'
    values = [(bytearray((line % n).encode()),) for n in range(ROWS)]
    rows = spark.createDataFrame(values, "value BINARY").coalesce(1).localCheckpoint()
    decoding = Decoding("json", COLUMNS, JsonReader(COLUMNS))
    return {
        "decode": rows.select(decoding.call(F.col("value")).alias("row")),
        "from_json": rows.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")),
    }


def side(daemon: str) -> dict[str, float]:
    """Return the median milliseconds of a task, by what reads the rows, in a session with a daemon."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    spark = builder.config("spark.python.daemon.module", daemon).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    times: dict[str, list[float]] = {}
    made = frames(spark)
    for name, frame in made.items():
        for _ in range(TASKS):
            began = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            times.setdefault(name, []).append(1000 * (time.perf_counter() - began))
    spark.stop()
    return {name: median(each[SKIP:]) for name, each in times.items()}


def main() -> None:
    """Run both sides in turn and print a table."""
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    table = Table(title=f"Tasks of {ROWS} rows, medians", title_justify="left")
    for column in ("daemon of Spark, ms", "of Mainstem, ms", "times", "from_json, ms"):
        table.add_column(column, justify="right")
    found = []
    for _ in range(ROUNDS):
        told = []
        for daemon in DAEMONS:
            command = [sys.executable, __file__, daemon]
            ended = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            told.append(json.loads(ended.stdout.splitlines()[-1]))
        spark, ours = (each["decode"] for each in told)
        found.append((spark, ours, ours / spark, told[1]["from_json"]))
        table.add_row(*(f"{number:.2f}" for number in found[-1]))
    table.add_section()
    table.add_row(*(f"{median(column):.2f}" for column in zip(*found, strict=True)), style="bold")
    console = Console()
    console.print(table)
    console.print(f"goal: <= {GOAL} times")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(side(sys.argv[1])))
    else:
        main()
