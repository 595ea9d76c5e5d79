"""Speed of `table_table_join`, beside Spark's stream-stream join of the same rows. Goal: >= 1 time.

Each table's rows are inserts alone, for only of those do both make the same rows: Spark's join knows
no updates, and keeps every row that ever came.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from mainstem import Changelog, Inputs
from mainstem.plan.build import make_plan
from mainstem.run.session import start
from mainstem_operators_joins.table_table import TableTableJoin
from mainstem_operators_joins.table_table_options import TableTableJoinOptions
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOAL = 1.0
SKIP = 2  # batches at the start of each run, which warm up and bring the right table
CUSTOMERS = 50_000


@dataclass(frozen=True)
class Case:
    """A join: how our operator is told it, and Spark.

    Attributes:
        self_join: whether the left table is joined with itself.
    """

    name: str
    options: Mapping[str, Any]
    by_hand: str
    self_join: bool = False


CASES = (
    Case("foreign key", {"foreign_key": "customer_id"}, "l.customer_id = r.id"),
    Case("self join", {"foreign_key": "manager_id"}, "l.manager_id = r.id", self_join=True),
    Case("same key", {"on": ["id"]}, "l.id = r.id"),
)
LEFT = Changelog("id BIGINT, customer_id BIGINT, manager_id BIGINT, cents BIGINT", ["id"], "n")
RIGHT = Changelog("id BIGINT, name STRING", ["id"], "n")


class Bench:
    """Both sides of the comparison, over one input.

    Args:
        place: a folder.
        rows: of each batch of the left table.
        batches: how many there are.
    """

    def __init__(self, place: Path, rows: int, batches: int) -> None:
        self._place = place
        self._batches = batches
        conf = {"spark.ui.enabled": False, "spark.sql.shuffle.partitions": 2}
        document = {
            "pipeline": "bench",
            "spark": {"master": "local[2]", "conf": conf},
            "sources": {"rows": {"use": "rate"}},
            "sinks": {"out": {"use": "console", "from": "rows"}},
        }
        self.spark: SparkSession = start(make_plan(document))
        for number in range(batches):
            low, high = number * rows, (number + 1) * rows
            ids = self.spark.range(low, high, 1, 2).selectExpr(
                "id",
                f"(id * 7919) % {CUSTOMERS} AS customer_id",
                "id DIV 10 AS manager_id",
                "id * 31 % 10000 AS cents",
            )
            self._write(ids, "left", number)
            customers = self.spark.range(CUSTOMERS if number == 0 else 0)
            if number < batches:  # for `same key`: each batch's own keys
                self._write(
                    customers.selectExpr("id", "concat('customer-', id) AS name"), "right", number
                )
                own = ids.selectExpr("id", "concat('row-', id) AS name")
                self._write(own, "same", number)

    def _write(self, frame: DataFrame, name: str, number: int) -> None:
        # One file a batch, named so that they are read in order.
        made = self._place / f".{name}-{number}"
        frame.coalesce(1).write.parquet(str(made))
        (file,) = made.glob("*.parquet")
        folder = self._place / name
        folder.mkdir(exist_ok=True)
        file.rename(folder / f"{number:05}.parquet")
        shutil.rmtree(made)
        time.sleep(0.02)  # the source goes by the files' times

    def ours(self, case: Case) -> list[float]:
        """Run the operator; return each batch's seconds."""
        spark = self.spark
        folder = Path(tempfile.mkdtemp(dir=self._place))
        options = dict(case.options)
        if case.self_join:
            options["take"] = {"manager_cents": "cents"}
        operator = TableTableJoin(TableTableJoinOptions(**options))
        shapes = Inputs({"left": LEFT, "right": LEFT if case.self_join else RIGHT})
        operator.shape(shapes)
        frames = {
            side: frame.selectExpr(
                "*",
                "'insert' AS _change_type",
                "1L AS _commit_version",
                "CAST(NULL AS TIMESTAMP) AS _commit_timestamp",
            )
            for side, frame in zip(("left", "right"), self._inputs(case), strict=True)
        }
        context: Any = SimpleNamespace(
            node="joined",
            spark=spark,
            wanted=frozenset(),
            shapes=shapes,
            timed=frozenset(),
            folder=lambda: folder,
        )
        return self._run(operator.apply(Inputs(frames), context).where("_output IS NULL"))

    def by_hand(self, case: Case) -> list[float]:
        """Run Spark's join; return each batch's seconds."""
        left, right = self._inputs(case)
        names = ["r.cents AS manager_cents"] if case.self_join else ["r.name"]
        joined = left.alias("l").join(right.alias("r"), _expression(case.by_hand))
        return self._run(joined.selectExpr("l.*", *names))

    def _inputs(self, case: Case) -> tuple[DataFrame, DataFrame]:
        def read(name: str) -> DataFrame:
            folder = self._place / name
            schema = self.spark.read.parquet(str(folder)).schema
            self._reads += 1
            reader = self.spark.readStream.name(f"read_{self._reads}").schema(schema)
            return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))

        other = "left" if case.self_join else "same" if "on" in case.options else "right"
        return read("left"), read(other)

    _reads = 0

    def _run(self, frame: DataFrame) -> list[float]:
        found: list[int] = []

        def count(batch: DataFrame, _: int) -> None:
            found.append(batch.count())

        query = (
            frame.writeStream.foreachBatch(count)
            .option("checkpointLocation", tempfile.mkdtemp(dir=self._place))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        self.rows = sum(found)
        done = [p for p in query.recentProgress if p.numInputRows]
        return [p.batchDuration / 1000 for p in done][SKIP:]

    def rounds(self, case: Case, count: int) -> Iterator[tuple[float, float]]:
        """Run both in turn; yield (ours, by hand) as the median seconds of a batch.

        One round before these warms up; which begins changes with every round.

        Raises:
            AssertionError: they made other numbers of rows.
        """
        sides: list[Callable[[Case], list[float]]] = [self.ours, self.by_hand]
        for number in range(count + 1):
            order = sides if number % 2 else sides[::-1]
            took, rows = {}, {}
            for side in order:
                took[side.__name__] = median(side(case))
                rows[side.__name__] = self.rows
            assert rows["ours"] == rows["by_hand"], rows
            if number:
                yield took["ours"], took["by_hand"]


def _expression(text: str) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return F.expr(text)


#: The same rows joined by Flink's SQL, in memory or RocksDB; prints its seconds from start to end.
FLINK = """
import sys, time
from pyflink.table import EnvironmentSettings, TableEnvironment
rows, customers, key, folder, backend = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
for name, value in {
    "parallelism.default": "2",
    "state.backend.type": backend,
    "execution.checkpointing.interval": "2 s",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.dir": f"file://{folder}",
    "taskmanager.memory.managed.size": "512m",
}.items():
    env.get_config().set(name, value)
def made(name, last):
    env.execute_sql(
        f"CREATE TABLE {name} (id BIGINT) WITH ('connector' = 'datagen', "
        "'rows-per-second' = '100000000', 'fields.id.kind' = 'sequence', "
        f"'fields.id.start' = '0', 'fields.id.end' = '{last}')"
    )
made("numbers", rows - 1)
made("others", customers - 1)
env.execute_sql(
    "CREATE TABLE done (id BIGINT, customer_id BIGINT, manager_id BIGINT, cents BIGINT, name STRING) "
    "WITH ('connector' = 'blackhole')"
)
columns = "id, MOD(id * 7919, 50000) AS customer_id, id / 10 AS manager_id, MOD(id * 31, 10000) AS cents"
began = time.perf_counter()
env.execute_sql(
    f"INSERT INTO done SELECT l.*, 'name-' || CAST(r.id AS STRING) "
    f"FROM (SELECT {columns} FROM numbers) l JOIN others r ON l.{key} = r.id"
).wait()
print(time.perf_counter() - began)
"""


def by_flink(python: str, place: Path, case: Case, rows: int, backend: str) -> float:
    """Return the seconds that Flink takes for all rows of a case, its start among them.

    Args:
        python: an interpreter that has PyFlink.
        place: a folder for its checkpoints.
        backend: where it keeps state: `hashmap` or `rocksdb`.
    """
    key = case.by_hand.partition(" ")[0].removeprefix("l.")
    others = CUSTOMERS if "customer_id" in key else rows
    arguments = [str(rows), str(others), key, tempfile.mkdtemp(dir=place), backend]
    done = subprocess.run(
        [python, "-c", FLINK, *arguments], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


@click.command(help=__doc__)
@click.option("--rows", default=250_000, help="Rows of a batch.")
@click.option("--batches", default=8, help="Batches of a run.")
@click.option("--rounds", default=3, help="Rounds that count.")
@click.option("--only", default="", help="Only cases whose names contain this.")
@click.option(
    "--flink", default="", help="An interpreter with PyFlink: its SQL joins the same rows too."
)
def main(rows: int, batches: int, rounds: int, only: str, flink: str) -> None:
    """Run the cases and print a table."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name:
        bench = Bench(Path(name), rows, batches)
        table = Table(title=f"Joins of tables, batches of {rows:,} rows", title_justify="left")
        for column in ("join", "round", "ours, rows/s", "Spark's, rows/s", "times"):
            table.add_column(column, justify="right")
        for case in CASES:
            if only not in case.name:
                continue
            found = []
            for number, (one, other) in enumerate(bench.rounds(case, rounds), 1):
                found.append(other / one)
                speeds = (f"{rows / seconds:,.0f}" for seconds in (one, other))
                table.add_row(case.name, str(number), *speeds, f"{other / one:.2f}")
            table.add_row(case.name, "median", "", "", f"{median(found):.2f}", style="bold")
            for backend in ("hashmap", "rocksdb") if flink else ():
                took = by_flink(flink, Path(name), case, rows * batches, backend)
                speed = f"{rows * batches / took:,.0f}"
                table.add_row(case.name, f"Flink, {backend}", "", speed, "")
            table.add_section()
        console.print(table)
        console.print(f"goal: >= {GOAL} times")
        bench.spark.stop()


if __name__ == "__main__":
    main()
