"""One job, as a document and by hand in PySpark: JSON lines in files become totals in parquet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.observation.reporter import Reporter, Silent
from mainstem.plan.build import make_plan
from mainstem.run.runner import run
from mainstem.run.session import start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CITIES = 50
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

DOCUMENT = """\
pipeline: orders
checkpoint: {out}/checkpoints
trigger: {{available_now: true}}
spark: {{master: "local[2]", conf: {{spark.ui.enabled: false}}}}
sources:
  lines:
    use: files
    with: {{path: {folder}, format: message, max_files: {max_files}}}
operators:
  order:
    use: decode
    from: lines
    with: {{format: json, schema: "id BIGINT, city STRING, placed TIMESTAMP, cents BIGINT"}}
    watermark: {{column: placed, delay: 10 minutes}}
    on_rejected: drop
  totals:
    use: aggregate
    from: order
    with:
      by: [city]
      window: {{on: placed, tumbling: 1 minute}}
      columns: {{orders: count(*), cents: sum(cents)}}
sinks:
  totals_files:
    use: files
    from: totals
    with: {{path: {out}/totals, format: parquet}}
"""


@dataclass(frozen=True)
class Timing:
    """How long a run took, in seconds: all of it, Spark's processor time, and each batch."""

    whole: float
    processor: float
    batches: tuple[float, ...]


def make_input(folder: Path, *, files: int, rows: int, step: timedelta) -> None:
    """Write JSON lines, in order of time; one in a thousand is cut short.

    Args:
        rows: of each file.
        step: the time from one row to the next.
    """
    folder.mkdir(parents=True)
    for number in range(files):
        with (folder / f"{number:05}.jsonl").open("w") as lines:
            for n in range(number * rows, (number + 1) * rows):
                at = (_BEGIN + n * step).isoformat(timespec="milliseconds")
                line = (
                    f'{{"id":{n},"city":"city-{n * 7919 % CITIES}","placed":"{at}",'
                    f'"cents":{n * 31 % 10_000},"note":"left at the door"}}'
                )
                lines.write((line[:40] if n % 1000 == 999 else line) + "\n")


def processor_seconds(spark: SparkSession) -> float:
    """Return the processor time that Spark's process has used so far (from Linux's /proc)."""
    jvm: Any = spark._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Batches(Silent):
    """Notes how long batches take, in seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def batch(self, facts: Mapping[str, Any]) -> None:
        self.seconds.append(facts["seconds"])


class Job:
    """The job over one input folder.

    Args:
        folder: the input.
        work: where outputs and checkpoints go, each run's into a folder of its own.
        max_files: the most files in one batch.
    """

    def __init__(self, folder: Path, work: Path, *, max_files: int) -> None:
        self._folder = folder
        self._work = work
        self._max_files = max_files
        self._runs = 0

    def session(self) -> SparkSession:
        """Return the session that the document asks for; both sides run in it."""
        return start(make_plan(self._document(self._work)))

    def by_document(self, reporting: Callable[[Reporter], Reporter] | None = None) -> Timing:
        """Run the document; `reporting` puts a reporter around the one that takes the times."""
        file = self._document(self._fresh())
        reporter = Batches()
        spark = self.session()
        used, began = processor_seconds(spark), time.perf_counter()
        run(make_plan(file), reporter=reporting(reporter) if reporting else reporter)
        whole = time.perf_counter() - began
        return Timing(whole, processor_seconds(spark) - used, tuple(reporter.seconds))

    def by_hand(self) -> Timing:
        """Run the same job as one would write it in PySpark."""
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as F  # noqa: N812

        out = self._fresh()
        spark = SparkSession.builder.getOrCreate()
        used, began = processor_seconds(spark), time.perf_counter()
        schema = "id BIGINT, city STRING, placed TIMESTAMP, cents BIGINT, _broken STRING"
        lines = (
            spark.readStream.name("lines")
            .option("maxFilesPerTrigger", self._max_files)
            .text(str(self._folder))
        )
        orders = (
            lines.select(
                F.from_json("value", schema, {"columnNameOfCorruptRecord": "_broken"}).alias("o")
            )
            .select("o.*")
            .where("_broken IS NULL")
            .withWatermark("placed", "10 minutes")
        )
        totals = (
            orders.groupBy("city", F.window("placed", "1 minute"))
            .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
            .select("city", "window.start", "window.end", "orders", "cents")
        )

        def write(frame: DataFrame, batch: int) -> None:
            frame.write.mode("overwrite").parquet(f"{out}/totals/batch={batch}")

        query = (
            totals.writeStream.outputMode("append")
            .option("checkpointLocation", f"{out}/checkpoint")
            .trigger(availableNow=True)
            .foreachBatch(write)
            .start()
        )
        query.awaitTermination()
        whole = time.perf_counter() - began
        done = [p for p in query.recentProgress if "addBatch" in p.durationMs]
        used = processor_seconds(spark) - used
        return Timing(whole, used, tuple(p.batchDuration / 1000 for p in done))

    def same(self, one: int, other: int) -> bool:
        """Whether two runs, counted from 1, wrote the same totals."""
        import pandas as pd

        def totals(number: int) -> pd.DataFrame:
            found = pd.read_parquet(self._work / str(number) / "totals")
            found.columns = [name.removeprefix("window_") for name in found.columns]
            columns = ["city", "start", "end", "orders", "cents"]
            return found[columns].sort_values(["city", "start"]).reset_index(drop=True)

        return totals(one).equals(totals(other))

    def rounds(self, count: int) -> Iterator[tuple[Timing, Timing]]:
        """Run both sides in turn; yield (document, by hand) for each round.

        Two rounds before these warm up; which side begins changes with every round.
        """
        for number in range(count + 2):
            if number % 2:
                hand = self.by_hand()
                document = self.by_document()
            else:
                document = self.by_document()
                hand = self.by_hand()
            if number >= 2:
                yield document, hand

    def _fresh(self) -> Path:
        self._runs += 1
        return self._work / str(self._runs)

    def _document(self, out: Path) -> Path:
        out.mkdir(parents=True, exist_ok=True)
        file = out / "orders.yaml"
        text = DOCUMENT.format(folder=self._folder, out=out, max_files=self._max_files)
        file.write_text(text)
        return file
