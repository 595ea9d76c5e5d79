"""Keyed state beside Spark's own: a stream-table join on pages, native aggregation, the row API.

In turn, in one session, each on its own checkpoint: native aggregation by key of the same batches, the
join with 50,000 keys and with 1,000,000, and batches of 1,000 rows on 1,000,000 keys beside the native
aggregation of such batches. Goals: the join >= 0.8 of the native rate and >= 6 times the row API's;
1,000,000 keys <= 1.3 times the time of 50,000; a batch of 1,000 rows <= 1.5 times a native one.

    python benchmarks/keyed_state.py [--rounds N] [--only WORD]... [--cpu]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from mainstem_keyed_state import (
    KEY,
    MAIN,
    Done,
    Logic,
    Port,
    Step,
    Table,
    keyed,
    polars_schema,
    spark_needs,
)
from rich.console import Console
from rich.table import Table as Shown

ROWS, FEW = 250_000, 1_000
KEYS, MANY = 50_000, 1_000_000
BATCHES = 4  # a round; the first warms up
TABLE_SHARE = 0.1
SCHEMA = "k BIGINT, at TIMESTAMP, order_id STRING, amount DOUBLE, port TINYINT"


class Join(Logic):
    """Gives rows of the stream the latest row of the table with their key."""

    def __init__(self, rows: pl.Schema) -> None:
        self.ports = {"rows": rows}
        known = pl.Schema({"rate_at": rows["at"], "rate": rows["amount"]})
        self.tables = {"known": Table(known)}
        self.outputs = {MAIN: pl.Schema({**rows, **known})}

    def step(self, step: Step) -> Done:
        rows = step.rows["rows"]
        new = rows.filter(pl.col("port") == 1).select(KEY, rate_at="at", rate="amount")
        new = new.sort("rate_at").unique(KEY, keep="last", maintain_order=True)
        old = step.state["known"]
        known = pl.concat([old.join(new, on=KEY, how="anti", maintain_order="left"), new])
        out = rows.filter(pl.col("port") == 0).join(known, on=KEY, how="left").drop(KEY)
        return Done({MAIN: out}, {"known": known})


class Rows:
    """A side: a stream on its own folder and checkpoint, run a round at a time."""

    def __init__(
        self, name: str, make: Callable[[Any], Any], folder: Path, spark: Any, *, rows: int, keys: int,
        load: int = 0, mode: str = "append",
    ) -> None:  # fmt: skip
        self.name, self.rows, self.keys = name, rows, keys
        self.folder, self._mode = folder / name, mode
        (self.folder / "in").mkdir(parents=True)
        self._draw, self._files = np.random.default_rng(1), 0
        self.times: list[float] = []
        self.cpu: list[float] = []
        self.state_bytes = 0
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        self._frame = make(stream.parquet(f"file://{self.folder}/in"))
        if load:  # every key once, at the table's side
            for start in range(0, load, ROWS):
                self._write(np.arange(start, min(load, start + ROWS)), np.int8(1))
            self._run()

    def _write(self, keys: Any, port: Any) -> None:
        count = len(keys)
        at = (
            1_700_000_000_000_000
            + self._files * 1_000_000
            + self._draw.integers(0, 1_000_000, count)
        )
        table = pa.table(
            {
                "k": keys,
                "at": pa.array(at, pa.timestamp("us", "UTC")),
                "order_id": pa.array([f"o{self._files}-{n}" for n in range(count)]),
                "amount": self._draw.random(count),
                "port": np.broadcast_to(port, count),
            }
        )
        hidden = self.folder / ".next"
        pq.write_table(table, hidden)
        os.utime(hidden, (1_700_000_000 + self._files,) * 2)
        hidden.rename(self.folder / "in" / f"{self._files:04}.parquet")
        self._files += 1

    def round(self) -> None:
        """Run a round of batches; the first does not count."""
        for _ in range(BATCHES):
            port = (self._draw.random(self.rows) < TABLE_SHARE).astype(np.int8)
            self._write(self._draw.integers(0, self.keys, self.rows), port)
        before = used()
        times = self._run()
        self.cpu.append((used() - before) / len(times))
        self.times += times[1:]

    def _run(self) -> list[float]:
        def write(frame: Any, _: int) -> None:
            frame.write.format("noop").mode("overwrite").save()

        writer = self._frame.writeStream.foreachBatch(write).outputMode(self._mode)
        writer = writer.option("checkpointLocation", f"file://{self.folder}/checkpoint")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        done = [p for p in query.recentProgress if p.numInputRows]
        state = self.folder / "checkpoint" / "state"
        self.state_bytes = sum(f.stat().st_size for f in state.rglob("*") if f.is_file())
        return [p.durationMs["triggerExecution"] / 1000 for p in done]


def used() -> float:
    """Return the processor seconds that this process and all below it have used."""
    children: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        process = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(process)
        seconds[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    found, waiting = 0.0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        found += seconds.get(process, 0.0)
        waiting += children.get(process, [])
    return found


def native(stream: Any) -> Any:
    """Aggregate by key, as Spark does it itself."""
    from pyspark.sql import functions as F  # noqa: N812

    totals = [F.count("*").alias("n"), F.sum("amount").alias("sum"), F.max("at").alias("last")]
    return stream.groupBy("k").agg(*totals)


def joined(spark: Any, folder: Path, name: str) -> Callable[[Any], Any]:
    """Join on pages."""
    home = folder / f"{name}-node"
    home.mkdir()

    class Context:
        node, wanted = "joined", frozenset[str]()

        def __init__(self) -> None:
            self.spark = spark

        def folder(self) -> Path:
            return home

    def make(stream: Any) -> Any:
        port = Port(stream, key=["k"])
        return keyed(Join(polars_schema(stream)), {"rows": port}, Context())

    return make


def by_row(stream: Any) -> Any:
    """Join by PySpark's row API: a call for each key."""
    from keyed_state_rows import RowJoin  # for workers to import

    columns = f"{SCHEMA}, rate DOUBLE"
    return stream.groupBy("k").transformWithState(RowJoin(), columns, "append", "none")


def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    package = "org.apache.spark.sql.execution.streaming"
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",  # as in our own sessions
        "spark.python.daemon.module": "mainstem.run.worker_daemon",
        **spark_needs().conf,
        "spark.sql.streaming.stateStore.providerClass": f"{package}.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": f"{package}.checkpointing.FileSystemBasedCheckpointFileManager",  # noqa: E501
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> None:
    """Run all sides in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", action="append", help="a side; repeatable")
    parser.add_argument("--cpu", action="store_true", help="ratios of processor time, not of time")
    arguments = parser.parse_args()
    spark = session()
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        sides = {
            "native": lambda n: Rows(n, native, folder, spark, rows=ROWS, keys=KEYS, mode="update"),
            "join": lambda n: Rows(
                n, joined(spark, folder, n), folder, spark, rows=ROWS, keys=KEYS, load=KEYS
            ),
            "rows": lambda n: Rows(n, by_row, folder, spark, rows=ROWS, keys=KEYS),
            "join-1m": lambda n: Rows(
                n, joined(spark, folder, n), folder, spark, rows=ROWS, keys=MANY, load=MANY
            ),
            "native-few": lambda n: Rows(
                n, native, folder, spark, rows=FEW, keys=MANY, load=MANY, mode="update"
            ),
            "join-few": lambda n: Rows(
                n, joined(spark, folder, n), folder, spark, rows=FEW, keys=MANY, load=MANY
            ),
        }
        chosen = {
            n: make(n) for n, make in sides.items() if not arguments.only or n in arguments.only
        }
        for _ in range(arguments.rounds):
            for side in chosen.values():
                side.round()
        show(chosen, cpu=arguments.cpu)
        spark.stop()


def show(sides: Mapping[str, Rows], *, cpu: bool) -> None:
    table = Shown(title="Keyed state, medians", title_justify="left")
    for column in ("side", "rows", "keys", "s/batch", "cpu s/batch", "rows/s", "state B/key"):
        table.add_column(column, justify="right")
    cost = {}
    for name, side in sides.items():
        seconds, processor = median(side.times), median(side.cpu)
        cost[name] = processor if cpu else seconds
        table.add_row(
            name, f"{side.rows:,}", f"{side.keys:,}", f"{seconds:.3f}", f"{processor:.3f}",
            f"{side.rows / seconds:,.0f}", f"{side.state_bytes / side.keys:.0f}",
        )  # fmt: skip
    console = Console()
    console.print(table)
    for one, other, words, goal in (
        ("native", "join", "of the native rate", ">= 0.8"),
        ("rows", "join", "times the rate of the row API", ">= 6"),
        ("join-1m", "join", "times as long with 1,000,000 keys", "<= 1.3"),
        ("join-few", "native-few", "times a native batch, at 1,000 rows", "<= 1.5"),
    ):
        if one in cost and other in cost:
            console.print(f"join: {cost[one] / cost[other]:.2f} {words} (goal {goal})")


if __name__ == "__main__":
    main()
