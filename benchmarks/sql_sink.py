"""Rows per second into databases: the sink `sql` by delivery strategy, against bare drivers.

Goals, by the median of rounds in turn: `transactional` into PostgreSQL >= 0.8 of a bare COPY of
100,000 rows; `idempotent` changes >= 0.7 of COPY and merge by hand; a batch of one row <= 1.5 times a
bare insert and commit; SQLite >= 0.8 of a bare executemany, MariaDB >= 0.8 of a bare bulk insert. Both
sides begin with rows in memory: the sink with Arrow, as Spark hands it over, the bare driver with tuples.
The last lines show both in Spark: the sink given a frame, and what one writes by hand in foreachBatch
(collect, then the driver).
"""

from __future__ import annotations

import itertools
import logging
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pyarrow as pa
import pymysql
from job import Job
from mainstem import Batch, Changelog, Events
from mainstem_database_sql.sink.options import SQLSinkOptions
from mainstem_database_sql.sink.sink import SQLSink
from mainstem_database_sql.testing.mariadb import MariaDB
from mainstem_database_sql.testing.postgres import Postgres
from rich.console import Console
from rich.table import Table

ROWS = 100_000
ROUNDS = 5
SINGLE = 300
DDL = "id BIGINT, customer STRING, city STRING, cents BIGINT, rate DOUBLE"
KINDS = "id BIGINT, customer VARCHAR(40), city VARCHAR(40), cents BIGINT, rate DOUBLE PRECISION"
NAMES = ["id", "customer", "city", "cents", "rate"]


class Given:
    """Rows in memory, where a frame of Spark's is expected."""

    def __init__(self, rows: pa.Table, schema: Any) -> None:
        self._rows = rows
        self.schema = schema

    def toArrow(self) -> pa.Table:  # noqa: N802
        """Return the rows."""
        return self._rows


def rows_of(count: int, first: int = 0) -> pa.Table:
    """Return rows in Arrow."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "customer": [f"customer {n % 5000}" for n in numbers],
            "city": [f"city {n % 97}" for n in numbers],
            "cents": pa.array([n * 7 % 100_000 for n in numbers], pa.int64()),
            "rate": [n / 3 for n in numbers],
        }
    )


def tuples_of(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows as a driver takes them."""
    return list(zip(*(rows.column(name).to_pylist() for name in NAMES), strict=True))


class Side:
    """One way to write batches; `seconds` are kept by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def time(self, name: str, work: Callable[[], object], times: int = 1) -> None:
        """Time some work."""
        began = time.perf_counter()
        for _ in range(times):
            work()
        self.seconds.setdefault(name, []).append((time.perf_counter() - began) / times)

    def median(self, name: str) -> float:
        """Return the median, in seconds."""
        return median(self.seconds[name])


def sink_of(url: str, table: str) -> SQLSink:
    return SQLSink(SQLSinkOptions.model_validate({"url": url, "table": table}))


class Batches:
    """Makes batches with growing ids."""

    def __init__(self, spark: Any, shape: Any) -> None:
        self._numbers = itertools.count()
        self._spark = spark
        self._shape = shape

    def next(self) -> Batch:
        """Return the next one."""
        return Batch(
            next(self._numbers), "bench", "bench", "bench", "out", self._spark, self._shape, 1
        )


EVENTS = Events(DDL)
CHANGES = Changelog(DDL, ["id"], sequence="cents")


def changes_of(rows: pa.Table, version: int) -> pa.Table:
    """Return rows as changes."""
    count = rows.num_rows
    return rows.append_column("_change_type", pa.array(["insert"] * count)).append_column(
        "_commit_version", pa.array([version] * count, pa.int64())
    )


# -- PostgreSQL -------------------------------------------------------------------------------


def postgres(url: str, spark: Any, side: Side) -> None:
    """Time appends, changes and single rows."""
    rows, one = rows_of(ROWS), rows_of(1)
    tuples, single = tuples_of(rows), tuples_of(one)
    schema = spark.createDataFrame([], DDL).schema
    changed = spark.createDataFrame(
        [], f"{DDL}, _change_type STRING, _commit_version BIGINT"
    ).schema
    copy = "COPY bare FROM STDIN"
    with psycopg.connect(url, autocommit=True) as settings:
        # The kit's server forgets in a power failure, which hides what a commit costs.
        settings.execute("ALTER SYSTEM SET fsync = on")
        settings.execute("SELECT pg_reload_conf()")
    with psycopg.connect(url) as bare:
        bare.execute(f"CREATE TABLE bare ({KINDS})")
        bare.execute(f"CREATE TABLE kept ({KINDS}, version BIGINT, PRIMARY KEY (id))")
        bare.commit()

        def by_copy(into: str = copy, rows: Any = tuples) -> None:
            with bare.cursor() as cursor, cursor.copy(into) as stream:
                for row in rows:
                    stream.write_row(row)
            bare.commit()

        def by_merge(version: int) -> None:
            bare.execute(f"CREATE TEMP TABLE staged ({KINDS}, version BIGINT) ON COMMIT DROP")
            with bare.cursor() as cursor, cursor.copy("COPY staged FROM STDIN") as stream:
                for row in tuples:
                    stream.write_row((*row, version))
            bare.execute(
                "INSERT INTO kept SELECT * FROM staged ON CONFLICT (id) DO UPDATE SET "
                "customer = excluded.customer, city = excluded.city, cents = excluded.cents, "
                "rate = excluded.rate, version = excluded.version "
                "WHERE kept.version < excluded.version"
            )
            bare.commit()

        def by_insert() -> None:
            bare.execute("INSERT INTO bare VALUES (%s, %s, %s, %s, %s)", single[0])
            bare.commit()

        appended, kept = sink_of(url, "appended"), sink_of(url, "changed")
        events, versions = Batches(spark, EVENTS), Batches(spark, CHANGES)
        appended.write_once(Given(one, schema), events.next())  # type: ignore[arg-type]
        kept.write_keyed(Given(changes_of(one, 0), changed), versions.next())  # type: ignore[arg-type]
        for number in range(1, ROUNDS + 1):
            with emptied(bare, "bare", "appended"):
                side.time("postgresql COPY", by_copy)
                side.time(
                    "postgresql transactional",
                    lambda: appended.write_once(Given(rows, schema), events.next()),  # type: ignore[arg-type]
                )
            side.time("postgresql merge", lambda: by_merge(number))  # noqa: B023
            given = changes_of(rows, number)
            side.time(
                "postgresql idempotent",
                lambda: kept.write_keyed(Given(given, changed), versions.next()),  # type: ignore[arg-type] # noqa: B023
            )
            bare.autocommit = True
            bare.execute("VACUUM ANALYZE kept")
            bare.execute("VACUUM ANALYZE changed")
            bare.autocommit = False
            side.time("postgresql insert", by_insert, SINGLE)
            side.time(
                "postgresql one row",
                lambda: appended.write_once(Given(one, schema), events.next()),  # type: ignore[arg-type]
                SINGLE,
            )
        frame = spark.createDataFrame(rows).localCheckpoint(eager=True)
        staged = sink_of(url, "appended")
        for _ in range(ROUNDS):
            with emptied(bare, "bare", "appended"):
                side.time("Spark COPY", lambda: by_copy(rows=map(tuple, frame.collect())))
                side.time("Spark transactional", lambda: appended.write_once(frame, events.next()))

                def in_parallel() -> None:
                    batch = events.next()
                    staged.discard(batch)
                    staged.publish(staged.stage(frame, batch), batch)

                side.time("Spark staged", in_parallel)


@contextmanager
def emptied(bare: Any, *tables: str) -> Iterator[None]:
    """Begin with empty tables."""
    for table in tables:
        bare.execute(f"TRUNCATE {table}")
    bare.commit()
    yield


# -- MariaDB, SQLite --------------------------------------------------------------------------


def others(name: str, url: str, bare: Any, mark: str, spark: Any, side: Side) -> None:
    """Time appends against executemany of the bare driver."""
    rows = rows_of(ROWS)
    tuples = tuples_of(rows)
    schema = spark.createDataFrame([], DDL).schema
    cursor = bare.cursor()
    cursor.execute(f"CREATE TABLE bare ({KINDS})")
    bare.commit()
    sink, events = sink_of(url, "appended"), Batches(spark, EVENTS)
    sink.write_once(Given(rows_of(1), schema), events.next())  # type: ignore[arg-type]
    insert = f"INSERT INTO bare VALUES ({', '.join([mark] * len(NAMES))})"

    def by_driver() -> None:
        cursor.executemany(insert, tuples)
        bare.commit()

    for _ in range(ROUNDS):
        for table in ("bare", "appended"):
            cursor.execute(f"DELETE FROM {table}")
        bare.commit()
        side.time(f"{name} bare", by_driver)
        side.time(
            f"{name} transactional",
            lambda: sink.write_once(Given(rows, schema), events.next()),  # type: ignore[arg-type]
        )


def main() -> None:
    """Run all sides in turn and print two tables."""
    logging.disable(logging.WARNING)
    side = Side()
    place = tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True)
    with (
        place as name,
        Postgres(Path(name, "postgres")) as pg,
        MariaDB(Path(name, "mariadb")) as my,
    ):
        spark = Job(Path(name, "in"), Path(name, "out"), max_files=1).session()
        postgres(pg.url, spark, side)
        parts = urlsplit(my.url)
        bare = pymysql.connect(host="127.0.0.1", port=parts.port or 0, user="root", database="test")
        with closing(bare):
            others("mariadb", my.url, bare, "%s", spark, side)
        file = Path(name, "bare.db")
        with closing(sqlite3.connect(file)) as lite:
            lite.execute("PRAGMA journal_mode = WAL")
            lite.execute("PRAGMA synchronous = NORMAL")
            others("sqlite", f"sqlite:///{file}", lite, "?", spark, side)
    show(side)


def show(side: Side) -> None:
    """Print what was measured."""
    table = Table(title=f"{ROWS:,} rows a batch, {SINGLE} batches of one row; medians")
    for column in ("what", "sink, ms", "bare, ms", "sink / bare, as speed", "goal"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for what, ours, theirs, goal in (
        ("PostgreSQL, transactional / COPY", "postgresql transactional", "postgresql COPY", ">= 0.8"),
        ("PostgreSQL, changes / COPY and merge", "postgresql idempotent", "postgresql merge", ">= 0.7"),
        ("PostgreSQL, one row / insert", "postgresql one row", "postgresql insert", ">= 0.67"),
        ("MariaDB, transactional / bulk insert", "mariadb transactional", "mariadb bare", ">= 0.8"),
        ("SQLite, transactional / executemany", "sqlite transactional", "sqlite bare", ">= 0.8"),
        ("in Spark, transactional / collect, COPY", "Spark transactional", "Spark COPY", ""),
        ("in Spark, staged / collect, COPY", "Spark staged", "Spark COPY", ""),
    ):  # fmt: skip
        mine, other = side.median(ours), side.median(theirs)
        table.add_row(
            what, f"{mine * 1000:,.1f}", f"{other * 1000:,.1f}", f"{other / mine:.2f}", goal
        )
    Console().print(table)


if __name__ == "__main__":
    main()
