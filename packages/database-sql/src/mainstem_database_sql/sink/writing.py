"""One batch into a table: in one transaction, retried when that may help, bad rows left out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import sqlalchemy as sa
from mainstem import CHANGE_TYPE, COMMIT_VERSION, Batch, Changelog, Shape, failpoint
from mainstem.changes import newest, split, without_preimages
from mainstem.columns import Column
from mainstem_database import connecting

from mainstem_database_sql.sink import bulk_load, checking
from mainstem_database_sql.sink.ledger import REFUSED, Entry, Ledger
from mainstem_database_sql.sink.merging import APPEND, KEYED, NEW, Merge
from mainstem_database_sql.sink.target import GONE, PUT, Target
from mainstem_database_sql.sink.transactions import Transaction, patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem_database_sql.sink.options import SQLSinkOptions

T = TypeVar("T")

_FORGET_EVERY = 60.0


class Writer:
    """Writes batches into one table.

    Args:
        options: the sink's.
    """

    def __init__(self, options: SQLSinkOptions) -> None:
        self.options = options
        self.engine = connecting.make_engine(options)
        self._target: Target | None = None
        self.ledger: Ledger
        self._shape: Shape | None = None
        self._columns: tuple[Column, ...] = ()
        self._forgot = 0.0

    # -- before -----------------------------------------------------------------------------

    def prepare(self, columns: tuple[Column, ...], shape: Shape) -> Target:
        """Make the tables that are missing, and check what is there; return how they look."""
        known = self._target
        if known is not None and self._shape == shape and self._columns == columns:
            return known

        def work(transaction: Transaction) -> Target:
            connection = transaction.connection
            connecting.check_version(connection)
            o = self.options
            target = Target.of(connection.dialect, o.table, o.namespace, o.ledger, columns, shape)
            checking.ensure(target, connection, create=o.create, add_columns=o.add_columns)
            return target

        self._target = self.transact(work)
        self.ledger = Ledger(self._target)
        self._shape, self._columns = shape, columns
        return self._target

    @property
    def target(self) -> Target:
        """How the table looks, once it was made ready."""
        assert self._target is not None  # noqa: S101
        return self._target

    def target_of(self, frame: DataFrame, batch: Batch) -> Target:
        """Return the target for a frame, made ready if it is not yet."""
        columns = tuple(Column(c.name, c.dataType.simpleString()) for c in frame.schema)
        return self.prepare(columns, batch.shape)

    # -- batches ----------------------------------------------------------------------------

    def put(
        self,
        frame: DataFrame,
        batch: Batch,
        *,
        new: bool = False,
        ledger: bool = True,
        once: bool = False,
    ) -> DataFrame | None:
        """Write a batch; return the rows that the database refuses.

        Args:
            frame: evaluated once, also if the batch is in.
            batch: the batch.
            new: whether rows whose `_id` is in the table are left out. Changes are set by their key.
            ledger: whether the batch is entered into the ledger.
            once: whether a batch that the ledger has is left as it is.
        """
        target = self.target_of(frame, batch)
        keyed = isinstance(batch.shape, Changelog)
        merge = Merge(target, KEYED if keyed else NEW if new else APPEND)
        rows = _rows(frame)
        failpoint("sql.before-transaction")
        tried = False

        def work(transaction: Transaction) -> pa.Table | Entry:
            nonlocal tried
            connection = transaction.connection
            if ledger:
                known = self.ledger.enter(connection, batch, once=once, tried=tried)
                if known is not None and once:
                    return known
            failpoint("sql.after-ledger")
            refused = self._place(transaction, merge, rows)
            if ledger and refused.num_rows:
                self.ledger.keep(connection, batch, refused)
            failpoint("sql.before-commit")
            tried = True
            return refused

        found = self.transact(work)
        failpoint("sql.after-commit")
        return self.told(found, batch)

    def has(self, batch: Batch) -> bool:
        """Whether the ledger says that a batch is in."""
        o = self.options
        target = Target(self.engine.dialect, o.table, o.namespace, o.ledger, ())

        def work(transaction: Transaction) -> bool:
            connection = transaction.connection
            if not sa.inspect(connection).has_table(o.ledger, schema=o.namespace):
                return False
            entry = Ledger(target).find(connection, batch)
            return entry is not None and entry.batch >= batch.id

        return self.transact(work)

    @staticmethod
    def told(found: pa.Table | Entry, batch: Batch) -> DataFrame | None:
        """Return what a batch has refused, now or when it came in; see `Entry.told`."""
        refused = found.told(batch) if isinstance(found, Entry) else found
        return batch.spark.createDataFrame(refused) if refused.num_rows else None

    # -- rows -------------------------------------------------------------------------------

    def _place(self, transaction: Transaction, merge: Merge, rows: pa.Table) -> pa.Table:
        """Put rows into the table; return those that it refuses, with the reasons."""
        if merge.how == KEYED:
            rows = without_preimages(rows)
        placing = Placing(transaction.connection, merge, rows)
        refused: list[dict[str, Any]] = []

        def put(start: int, end: int) -> None:
            placing.put(rows.slice(start, end - start))

        def refuse(number: int, reason: str) -> None:
            refused.append(bulk_load.refused(rows, number, reason))

        transaction.put(rows.num_rows, put, refuse)
        self.forget(transaction, merge)
        return pa.Table.from_pylist(refused, REFUSED) if refused else REFUSED.empty_table()

    def forget(self, transaction: Transaction, merge: Merge) -> None:
        """Forget old deletes, now and then."""
        if time.monotonic() - self._forgot > _FORGET_EVERY:
            horizon = int(time.time() - self.options.deletes_within.total_seconds())
            merge.forget(transaction.connection, horizon)
            self._forgot = time.monotonic()

    def transact(
        self,
        work: Callable[[Transaction], T],
        before_care: Callable[[sa.Connection], None] | None = None,
    ) -> T:
        """Do work in one transaction; see `patiently`."""
        return patiently(self.engine, self.options, work, before_care)


class Placing:
    """Puts parts of a batch into the table, through temporary tables where they must be compared."""

    def __init__(self, connection: sa.Connection, merge: Merge, rows: pa.Table) -> None:
        self._connection = connection
        self._merge = merge
        self._now = int(time.time())
        target = merge.target
        # Made here, before a savepoint that could undo it.
        if merge.how != APPEND and rows.num_rows:
            self._make(PUT, target.names)
        if merge.how == KEYED and bulk_load.deletes(rows):
            self._make(GONE, target.versioned)
        merge.begin(connection)

    def put(self, rows: pa.Table) -> None:
        """Put rows, or changes, into the table."""
        merge, target = self._merge, self._merge.target
        if merge.how == APPEND:
            path = target.path(target.name)
            bulk_load.load(self._connection, path, target.names, rows)
            return
        if merge.how != KEYED:
            bulk_load.known(rows, target.unique)
        else:
            bulk_load.known(rows, (*target.versioned, CHANGE_TYPE))
            rows = newest(rows, target.key, COMMIT_VERSION if target.sequenced else None)
            rows, deleted = split(rows)
            if deleted.num_rows:
                gone = self._filled(GONE, target.versioned, deleted)
                merge.delete(self._connection, gone, self._now)
        if rows.num_rows:
            merge.put(self._connection, self._filled(PUT, target.names, rows))

    def _make(self, name: str, names: tuple[str, ...]) -> None:
        """Make a temporary table; it lives as long as the connection."""
        target = self._merge.target
        wanted = f"SELECT {target.listed(names)} FROM {target.path(target.name)} WHERE 1 = 0"
        made = f"CREATE TEMPORARY TABLE IF NOT EXISTS {target.quoted(name)} AS {wanted}"
        self._connection.execute(sa.text(made))

    def _filled(self, name: str, names: tuple[str, ...], rows: pa.Table) -> str:
        """Put rows into a temporary table and return its name, quoted."""
        target = self._merge.target
        path = target.quoted(name)
        # MySQL would commit if it were truncated.
        emptied = "TRUNCATE" if target.dialect.name == "postgresql" else "DELETE FROM"
        self._connection.execute(sa.text(f"{emptied} {path}"))
        bulk_load.load(self._connection, path, names, rows)
        return path


def _rows(frame: DataFrame) -> pa.Table:
    """Return a batch's rows in Arrow; the one place that evaluates them."""
    return frame.toArrow()
