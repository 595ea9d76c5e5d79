"""Reads a table: over connections that only read, part by part, retried when that may help."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import quote

import pyarrow as pa
import sqlalchemy as sa
from mainstem import MainstemError, OptionError, PipelineError
from mainstem.columns import Column
from mainstem.patience import pause_after
from mainstem_database import connecting
from mainstem_database.connecting import Meaning
from mainstem_database.options import DatabaseOptions
from sqlalchemy.types import TypeEngine

from mainstem_database_sql.source.values import DOUBLE, TEXT, MisfitError, access, as_array

T = TypeVar("T")

#: A part of a table has at most so many rows, and about so many bytes.
ROWS, BYTES = 4_000, 16 * 2**20
#: The rows of the first part, before it is known how large they are.
_FIRST = 200


class Database:
    """The database of a source.

    Args:
        options: which one, and how it is reached.
        columns: what is read of the table.
    """

    def __init__(self, options: DatabaseOptions, columns: Sequence[Column]) -> None:
        self.options = options
        self.columns = tuple(columns)
        self._engine: sa.Engine | None = None
        self._expressions: list[sa.ColumnElement[Any]] = []
        #: The types of the table's columns, once it was read.
        self.types: dict[str, TypeEngine[Any]] = {}
        #: When the database last answered.
        self.answered = 0.0

    def read(self, work: Callable[[Table], T], *, patiently: bool = True) -> T:
        """Do work in a transaction that sees one state of the database, and only reads.

        It is done again while the database is away: for `give_up` after it has last answered.

        Args:
            work: is given the table, and may be called again.
            patiently: whether to retry at all.

        Raises:
            MisfitError: a value of the table, or one that it was asked about, is none of its type.
            PipelineError: what the database said last, without credentials.
            OptionError: the table is not as the options say.
        """
        self.answered = time.monotonic()
        patience = self.options.give_up.total_seconds() if patiently else 0.0
        tries = 0
        while True:
            try:
                return self._once(work)
            except (MainstemError, OptionError):
                raise
            except Exception as error:
                if not connecting.of_a_database(error):
                    raise
                meant = connecting.meaning(error)
                if meant is Meaning.ROW:
                    raise MisfitError(str(self._failure(error))) from None
                passing = meant is Meaning.TRANSIENT
                left = self.answered + patience - time.monotonic()
                if not passing or left <= 0:
                    raise self._failure(error) from None
            self.close()
            tries += 1
            time.sleep(min(pause_after(tries), left))

    def _once(self, work: Callable[[Table], T]) -> T:
        if self._engine is None:
            self._engine = make_engine(self.options)
        with self._engine.connect() as connection:
            expressions = self._expressions
            if not expressions:
                # By itself: a transaction sees the state that it found when it first looked.
                with connection.begin():
                    expressions = self._expressions = self._checked(connection)
            self.answered = time.monotonic()
            with connection.begin():
                return work(Table(self, connection, expressions))

    def close(self) -> None:
        """End the connections, and forget what is known of the table."""
        self._expressions = []
        if self._engine is not None:
            with suppress(Exception):
                self._engine.dispose()

    def _failure(self, error: Exception) -> PipelineError:
        found = connecting.failure(error, self.options)
        return PipelineError(f"{found} (table {self.name})")

    @property
    def name(self) -> str:
        """The table, with its schema where one is given."""
        o = self.options
        return f"{o.namespace}.{o.table}" if o.namespace else o.table

    # -- is it as the options say? ------------------------------------------------------------

    def _checked(self, connection: sa.Connection) -> list[sa.ColumnElement[Any]]:
        """Return how each column is asked for.

        Raises:
            OptionError: table or columns are missing, or of a type that does not fit; names all.
        """
        connecting.check_version(connection)
        o = self.options
        inspector = sa.inspect(connection)
        if not inspector.has_table(o.table, schema=o.namespace):
            raise OptionError(f"there is no table {self.name} in {o.place}", option="table")
        there = {c["name"]: c["type"] for c in inspector.get_columns(o.table, schema=o.namespace)}
        problems, found = [], []
        for column in self.columns:
            kind = there.get(column.name)
            if kind is None:
                problems.append(f"has no column {column.name}, but {', '.join(there)}")
                continue
            how = access(column.type or "", kind, connection.dialect)
            if how is None:
                shown = kind.compile(connection.dialect)
                problems.append(
                    f"column {column.name} is {shown}, which is not read as {column.type} exactly"
                )
                continue
            found.append(_expression(column.name, how, connection.dialect))
        if problems:
            raise OptionError(
                f"the table {self.name} does not fit: it " + "; ".join(problems), option="schema"
            )
        connection.execute(sa.select(*found).select_from(self.table).where(sa.false())).close()
        self.types = there
        return found

    @property
    def table(self) -> sa.TableClause:
        """The table, for statements."""
        o = self.options
        schema = sa.sql.quoted_name(o.namespace, quote=True) if o.namespace else None
        return sa.table(sa.sql.quoted_name(o.table, quote=True), schema=schema)


class Table:
    """A table in a transaction.

    Args:
        database: where it is.
        connection: in a transaction.
        expressions: how each of its columns is asked for.
    """

    def __init__(
        self,
        database: Database,
        connection: sa.Connection,
        expressions: Sequence[sa.ColumnElement[Any]],
    ) -> None:
        self.database = database
        self.connection = connection
        self._expressions = expressions

    def one(self, *asked: sa.ColumnElement[Any], where: Any = None) -> Any:
        """Return the one row of a statement about all rows, or those of a condition."""
        statement = sa.select(*asked).select_from(self.database.table)
        found = self.connection.execute(statement if where is None else statement.where(where))
        return found.one()

    def parts(self, where: Any = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in Arrow, part by part, as one statement gives them.

        Raises:
            PipelineError: a value does not fit its column's type.
        """
        database = self.database
        statement = self._statement(where)
        streaming = statement.execution_options(stream_results=True, max_row_buffer=_FIRST)
        driver = self.connection.connection.driver_connection
        with _let_go(driver), self.connection.execute(streaming) as result:
            size = _FIRST
            while rows := result.fetchmany(size):
                database.answered = time.monotonic()
                part = self._part(rows)
                size = min(ROWS, max(1, BYTES * len(rows) // max(1, part.nbytes)))
                del rows
                yield part

    def few(self, where: Any) -> pa.RecordBatch | None:
        """Return the rows of a condition in Arrow, fetched at once; None if there are none.

        Raises:
            MisfitError: a value does not fit its column's type.
        """
        rows = self.connection.execute(self._statement(where)).fetchall()
        return self._part(rows) if rows else None

    def _statement(self, where: Any) -> sa.Select[Any]:
        statement = sa.select(*self._expressions).select_from(self.database.table)
        return statement if where is None else statement.where(where)

    def _part(self, rows: Sequence[Any]) -> pa.RecordBatch:
        columns = self.database.columns
        arrays = [
            as_array(values, column, self.database.name)
            for values, column in zip(zip(*rows, strict=True), columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


@contextmanager
def _let_go(driver: Any) -> Iterator[None]:
    """Keep PyMySQL from reading the rest of a result, whenever it is collected, of a lost connection."""
    try:
        yield
    except Exception:
        if getattr(driver, "_rfile", driver) is None and driver._result is not None:
            driver._result.unbuffered_active = False
        raise


def named(name: str) -> sa.ColumnClause[Any]:
    """Return a column of no known type: its values are the driver's own."""
    return sa.column(sa.sql.quoted_name(name, quote=True))


def _expression(name: str, how: str, dialect: sa.Dialect) -> sa.ColumnElement[Any]:
    column = named(name)
    postgresql = dialect.name == "postgresql"
    if how == TEXT:
        return sa.cast(column, sa.Text if postgresql else sa.CHAR).label(None)
    if how == DOUBLE:
        # MySQL shows six digits of a FLOAT, and all of what is computed from one.
        wide: Any = sa.cast(column, sa.Double) if postgresql else column + sa.literal_column("0e0")
        return sa.type_coerce(wide, sa.types.NullType()).label(None)
    return column


# -- connections ------------------------------------------------------------------------------


def make_engine(options: DatabaseOptions) -> sa.Engine:
    """Return an engine whose transactions see one state of the database."""
    if options.product == "sqlite":
        return _sqlite(options)
    engine = connecting.make_engine(options)
    if options.product == "postgresql":
        sa.event.listen(engine, "connect", _times_as_text)
    return engine.execution_options(isolation_level="REPEATABLE READ")


def _times_as_text(connection: Any, _record: Any) -> None:
    """Let dates and times come as text: Python has no infinite ones, and none before the year 1."""
    from psycopg.types.string import TextLoader

    for name in ("date", "timestamp", "timestamptz"):
        connection.adapters.register_loader(name, TextLoader)


def _sqlite(options: DatabaseOptions) -> sa.Engine:
    """Return an engine that changes no file, not even its journal's mode, and makes none."""
    path = options.url.get_secret_value().removeprefix("sqlite:///")

    def connect() -> sqlite3.Connection:
        timeout = options.connect_timeout.total_seconds()
        found = sqlite3.connect(
            f"file:{quote(path)}?mode=rw", uri=True, timeout=timeout, isolation_level=None
        )
        found.execute("PRAGMA query_only = ON")
        found.text_factory = _text
        return found

    engine = sa.create_engine(
        "sqlite://", creator=connect, poolclass=sa.pool.NullPool, hide_parameters=True
    )

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _text(data: bytes) -> str:
    # What is no UTF-8 is found where column and table are known.
    return data.decode("utf-8", "surrogateescape")
