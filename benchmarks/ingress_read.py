"""From a segment log into Spark: a `LogReading` beside Spark's own Parquet stream.

    python benchmarks/ingress_read.py [MILLIONS] [ROUNDS]

Both read the same rows, with all message columns and values of 200 bytes, from a warm page cache:
the log in segments of 5,000 rows, Parquet in files of 250,000 (uncompressed, values without
dictionaries). Both write nowhere (`noop`), in batches of a million rows at most. Each side is timed
by Spark's own progress, without its first batch. Prints rows a second and the ratio, medians over the
rounds. Goal: >= 0.8.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from mainstem.run.spark_source import register
from mainstem_ingress.messages import Message
from mainstem_ingress.reading import LogReading
from mainstem_ingress.segments import Header, as_batch, schema_of, write

SEGMENT, FILE, BATCH = 5_000, 250_000, 1_000_000
GOAL = 0.8


def make(place: Path, rows: int) -> None:
    """Write the rows in both forms."""
    log, files = place / "log" / "receivers" / "0", place / "parquet"
    log.mkdir(parents=True)
    files.mkdir()
    schema = schema_of()
    waiting: list[pa.RecordBatch] = []
    for number in range(rows // SEGMENT):
        first = number * SEGMENT
        messages = [
            Message(b"%0200d" % n, b"key-%d" % (n % 1000), None, 1_700_000_000_000_000 + n, "queue")
            for n in range(first, first + SEGMENT)
        ]
        batch = as_batch(messages, None, schema)
        write(log, Header(number, SEGMENT, first, number * 1_200_000, time.time()), batch)
        columns = {name: batch.column(name) for name in batch.schema.names[:5]}
        columns["partition"] = pa.array(["0"] * SEGMENT)
        columns["position"] = pa.array([f"{number:012d}.{n:08d}" for n in range(SEGMENT)])
        waiting.append(pa.RecordBatch.from_pydict(columns))
        if len(waiting) * SEGMENT >= FILE:
            name = files / f"{number:06d}.parquet"
            table = pa.Table.from_batches(waiting)
            pq.write_table(table, name, compression="none", use_dictionary=["origin", "partition"])
            waiting = []


def drain(frame: Any, place: Path) -> float:
    """Run a query to its end; return the seconds of all batches but the first."""
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [p for p in query.recentProgress if p.numInputRows]
    later = batches[1:]
    return sum(p.batchDuration for p in later) / 1000 / sum(p.numInputRows for p in later)


def main(millions: int, rounds: int) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    rates: dict[str, list[float]] = {"log": [], "Parquet": []}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make(place, millions * 1_000_000)
        columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, "
        columns += "origin STRING, partition STRING, position STRING"
        for number in range(rounds):
            reading = LogReading(place / "log", BATCH, 1 << 40, tasks=2)
            log = spark.readStream.format(register(spark, reading, "log", "log")).load()
            rates["log"].append(1 / drain(log, place / f"c-log-{number}"))
            files = (
                spark.readStream.schema(columns)
                .option("maxFilesPerTrigger", BATCH // FILE)
                .parquet(str(place / "parquet"))
            )
            rates["Parquet"].append(1 / drain(files, place / f"c-parquet-{number}"))
    spark.stop()
    for side, found in rates.items():
        print(f"{side:8} {statistics.median(found):12,.0f} rows/s")
    ratios = [ours / theirs for ours, theirs in zip(*rates.values(), strict=True)]
    print(f"log / Parquet: {statistics.median(ratios):.2f} (goal: >= {GOAL})")


if __name__ == "__main__":
    main(*(int(word) for word in [*sys.argv[1:], "5", "5"][:2]))
