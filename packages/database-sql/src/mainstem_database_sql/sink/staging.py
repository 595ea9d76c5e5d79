"""Staging: executors write a batch into tables that nobody reads, for `publishing`."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from mainstem import CHANGE_TYPE, COMMIT_VERSION, Batch, Changelog, failpoint
from mainstem.changes import split, without_preimages
from mainstem_database import connecting

from mainstem_database_sql.sink import bulk_load
from mainstem_database_sql.sink.ledger import REFUSED
from mainstem_database_sql.sink.target import Target
from mainstem_database_sql.sink.transactions import Transaction, patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem_database_sql.sink.options import SQLSinkOptions
    from mainstem_database_sql.sink.writing import Writer

#: Which task wrote a row, and the row's number: that of the task in the upper bits.
TASK, ROW = "_task", "_row"
_TASK_BITS = 40
#: What a task tells when it has ended: its name, the number of its first row and how many it numbered,
#: how many it staged to be put and to be deleted; and a row for each that the database refused.
_TOLD: dict[str, pa.DataType] = {
    "task": pa.string(),
    "first": pa.int64(),
    "rows": pa.int64(),
    "put": pa.int64(),
    "gone": pa.int64(),
}
TOLD = pa.schema([*pa.schema(_TOLD), *REFUSED])


@dataclass(frozen=True)
class Staging:
    """The staging tables of one try of a batch: rows to put, and keys to delete.

    The names tell the checkpoint, the batch and the run, so that a run that has been replaced and its
    successor never share one.
    """

    target: Target
    put: str
    gone: str

    @classmethod
    def of(cls, target: Target, batch: Batch) -> Staging:
        """Return those of a batch."""
        start = f"{prefix(target, batch)}{batch.id}_{batch.epoch}"
        return cls(target, f"{start}_p", f"{start}_d")

    def make(self, connection: sa.Connection) -> None:
        """Make the tables, empty, with the types that the target's table has."""
        for name, columns in self._tables():
            self._drop(connection, name)
            path, table = self.target.path(name), self.target.path(self.target.name)
            product = connection.dialect.name
            unlogged = "UNLOGGED " if product == "postgresql" else ""
            engine = "ENGINE = InnoDB " if product == "mysql" else ""
            wanted = f"SELECT {self.target.listed(columns)} FROM {table} WHERE 1 = 0"
            connection.execute(sa.text(f"CREATE {unlogged}TABLE {path} {engine}AS {wanted}"))
            for column, kind in ((TASK, "CHAR(32)"), (ROW, "BIGINT")):
                added = f"ADD COLUMN {self.target.quoted(column)} {kind}"
                connection.execute(sa.text(f"ALTER TABLE {path} {added}"))

    def index(self, connection: sa.Connection) -> None:
        """Let rows be found by their numbers; for a batch of which some are refused."""
        for name, _ in self._tables():
            if sa.inspect(connection).get_indexes(name, schema=self.target.namespace):
                continue  # an earlier try has made it
            index, path = self.target.quoted(f"{name}_i"), self.target.path(name)
            number = self.target.quoted(ROW)
            connection.execute(sa.text(f"CREATE INDEX {index} ON {path} ({number})"))

    def drop(self, connection: sa.Connection) -> None:
        """Remove the tables."""
        for name, _ in self._tables():
            self._drop(connection, name)

    def _drop(self, connection: sa.Connection, name: str) -> None:
        connection.execute(sa.text(f"DROP TABLE IF EXISTS {self.target.path(name)}"))

    def _tables(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield self.put, self.target.names
        if self.target.key:
            yield self.gone, self.target.versioned

    def relation(self, name: str, tasks: Iterable[str], start: int, end: int) -> str:
        """Return the staged rows of some tasks and numbers as a relation; of a key, the newest."""
        t = self.target
        number = t.quoted(ROW)
        chosen = f"FROM {self._of(name, tasks)} AND {number} >= {start} AND {number} < {end}"
        if not t.key:
            return f"(SELECT * {chosen})"
        order = [f"{t.in_order(t.quoted(COMMIT_VERSION))} DESC"] if t.sequenced else []
        window = (
            f"ROW_NUMBER() OVER (PARTITION BY {t.listed(t.key)} "
            f"ORDER BY {', '.join([*order, f'{number} DESC'])})"
        )
        last = t.quoted("_last")
        ranked = f"SELECT x.*, {window} AS {last} FROM (SELECT * {chosen}) AS x"
        newest = f"SELECT y.* FROM ({ranked}) AS y WHERE y.{last} = 1"
        if name == self.put and not t.sequenced:  # nothing else tells a delete from one after it
            same = " AND ".join(f"g.{t.quoted(n)} = y.{t.quoted(n)}" for n in t.key)
            later = f"g.{number} > y.{number} AND g.{number} < {end} AND {same}"
            deleted = f"SELECT 1 FROM (SELECT * FROM {self._of(self.gone, tasks)}) AS g"
            newest += f" AND NOT EXISTS ({deleted} WHERE {later})"
        return f"({newest})"

    def count(self, connection: sa.Connection, name: str, tasks: Iterable[str]) -> int:
        """Return how many rows some tasks have staged."""
        counted = connection.execute(sa.text(f"SELECT COUNT(*) FROM {self._of(name, tasks)}"))
        return int(counted.scalar_one())

    def row(self, connection: sa.Connection, tasks: Iterable[str], number: int) -> dict[str, Any]:
        """Return the row, or the key to delete, that some task has staged under a number."""
        for name, columns in self._tables():
            chosen = f"{self._of(name, tasks)} AND {self.target.quoted(ROW)} = {number}"
            found = connection.execute(
                sa.text(f"SELECT {self.target.listed(columns)} FROM {chosen}")
            )
            if (row := found.mappings().first()) is not None:
                return dict(row)
        return {}

    def _of(self, name: str, tasks: Iterable[str]) -> str:
        listed = ", ".join(f"'{task}'" for task in tasks) or "''"  # made here, of hex digits
        return f"{self.target.path(name)} WHERE {self.target.quoted(TASK)} IN ({listed})"


def prefix(target: Target, batch: Batch) -> str:
    """Return what the names of all staging tables of a sink and its checkpoint begin with."""
    who = "\x00".join((batch.pipeline, batch.sink, batch.query_id, target.name))
    return f"mainstem_stage_{hashlib.sha256(who.encode()).hexdigest()[:12]}_"


def leftovers(connection: sa.Connection, target: Target, batch: Batch) -> list[str]:
    """Return the staging tables of a checkpoint that no run of a later epoch has made."""
    start = re.compile(re.escape(prefix(target, batch)) + r"\d+_(\d+)_[pd]")
    names = sa.inspect(connection).get_table_names(schema=target.namespace)
    found = [(name, start.fullmatch(name)) for name in names]
    return [name for name, match in found if match and int(match[1]) <= batch.epoch]


# -- executors --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """What an executor does with one partition of a batch; made of what can be sent to it.

    `given` names the partition's columns. `put` and `gone` are the staging tables, as paths; `gone` is
    empty where there are no deletes.
    """

    options: SQLSinkOptions
    given: tuple[str, ...]
    put: str
    gone: str
    names: tuple[str, ...]
    gone_names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the partition in one transaction; tell of it, and what was refused."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # noqa: S101
        told: list[dict[str, Any]] = []
        given = list(batches)
        if given:
            rows = pa.Table.from_batches(given).rename_columns(list(self.given))
            first = context.partitionId() << _TASK_BITS
            engine = connecting.make_engine(self.options)
            try:
                told = patiently(engine, self.options, lambda t: self._stage(t, rows, first))
            finally:
                engine.dispose()
        failpoint("sql.staged-task")
        yield from pa.Table.from_pylist(told, TOLD).to_batches()

    def _stage(self, transaction: Transaction, rows: pa.Table, first: int) -> list[dict[str, Any]]:
        rows = without_preimages(rows) if self.gone else rows
        count = rows.num_rows
        # A name for each try: an earlier one may be in, though nobody heard of it.
        task = uuid.uuid4().hex
        staged = {"put": 0, "gone": 0}
        numbered = rows.append_column(ROW, pa.array(range(first, first + count), pa.int64()))
        numbered = numbered.append_column(TASK, pa.array([task] * count, pa.string()))
        refused: list[dict[str, Any]] = []

        def put(start: int, end: int) -> None:
            part = numbered.slice(start, end - start)
            gone = part.slice(0, 0)
            if self.gone:
                bulk_load.known(part, (*self.gone_names, CHANGE_TYPE))
                part, gone = split(part)
                bulk_load.load(
                    transaction.connection, self.gone, (*self.gone_names, TASK, ROW), gone
                )
            bulk_load.load(transaction.connection, self.put, (*self.names, TASK, ROW), part)
            staged["put"] += part.num_rows
            staged["gone"] += gone.num_rows

        def refuse(number: int, reason: str) -> None:
            refused.append(bulk_load.refused(rows, number, reason))

        transaction.put(count, put, refuse)
        return [{"task": task, "first": first, "rows": count, **staged}, *refused]


# -- driver -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StagedBatch:
    """A staged batch.

    Attributes:
        staging: where it is.
        tasks: the names of the tasks that wrote it.
        spans: the number of each task's first row, and how many it numbered, in order.
        put: how many rows are staged to be put.
        gone: how many to be deleted.
        refused: what was refused on the way.
        again: stages the batch anew.
    """

    staging: Staging
    tasks: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    put: int
    gone: int
    refused: pa.Table
    again: Callable[[], StagedBatch]


def stage(writer: Writer, frame: DataFrame, batch: Batch) -> StagedBatch:
    """Let the executors write a frame's rows into staging tables.

    A task that is run twice writes twice, under two names, of which one comes back.
    """
    target = writer.target_of(frame, batch)
    staging = Staging.of(target, batch)
    writer.transact(lambda transaction: staging.make(transaction.connection))
    failpoint("sql.staging-made")
    gone = target.path(staging.gone) if isinstance(batch.shape, Changelog) else ""
    task = Task(
        writer.options,
        tuple(frame.columns),
        target.path(staging.put),
        gone,
        target.names,
        target.versioned,
    )
    # Spark looks for the columns by name, and not every name can be looked for.
    plain = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    told = plain.mapInArrow(task, _ddl(TOLD)).toArrow()
    failpoint("sql.staged")
    named = pc.is_valid(told.column("task"))
    tasks = sorted(told.filter(named).to_pylist(), key=lambda each: int(each["first"]))
    refused = told.filter(pc.invert(named)).drop_columns(list(_TOLD)).cast(REFUSED)
    return StagedBatch(
        staging,
        tuple(str(each["task"]) for each in tasks),
        tuple((each["first"], each["rows"]) for each in tasks),
        sum(each["put"] for each in tasks),
        sum(each["gone"] for each in tasks),
        refused,
        lambda: stage(writer, frame, batch),
    )


def discard(writer: Writer, batch: Batch) -> None:
    """Remove the staging tables that earlier tries and replaced runs of a checkpoint left."""
    o = writer.options
    target = Target(writer.engine.dialect, o.table, o.namespace, o.ledger, ())

    def work(transaction: Transaction) -> None:
        connection = transaction.connection
        for name in leftovers(connection, target, batch):
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {target.path(name)}"))

    writer.transact(work)


def _ddl(schema: pa.Schema) -> str:
    kinds = {pa.string(): "STRING", pa.binary(): "BINARY", pa.int64(): "BIGINT"}
    return ", ".join(f"{field.name} {kinds[field.type]}" for field in schema)
