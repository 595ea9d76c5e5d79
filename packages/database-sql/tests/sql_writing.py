"""How the tests of the sink write: batches as the core makes them, into tables of their own."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from contextlib import closing

import pytest
from mainstem import Batch, Changelog, Events
from mainstem.builtin.microbatch import Microbatch, MicrobatchOptions
from mainstem.columns import read_columns
from mainstem.contracts.shapes import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from mainstem_database_sql.sink.sink import SQLSink
from mainstem_fault_tolerance.idempotent import Idempotent, IdempotentOptions
from mainstem_fault_tolerance.staged import StagedDelivery, StagedOptions
from mainstem_fault_tolerance.transactional import TransactionalDelivery, TransactionalOptions
from mainstem_testkit.proxy import FaultProxy
from sql_databases import ask, connected, typed

#: Two checkpoints.
CHECKPOINT, OTHER = "5f0c7a52-6c3e-4f0e-9d55-0d8f7c1e2a01", "b7e1d9c4-11aa-4b7e-8a43-97f2f6b0c502"
STRATEGIES = {
    "microbatch": Microbatch(MicrobatchOptions()),
    "transactional": TransactionalDelivery(TransactionalOptions()),
    "idempotent": Idempotent(IdempotentOptions()),
    "staged": StagedDelivery(StagedOptions()),
}
EXACT = ("transactional", "staged", "idempotent")
SERVERS = ("postgres", "mariadb")
PRODUCTS = (*SERVERS, "sqlite")


def slow(*values):
    """Return a case that is left to the slow tests."""
    return pytest.param(*values, marks=pytest.mark.slow)


def strategies(*hows, products=PRODUCTS, quick=()):
    """Give a test a place in each product, and each strategy to write by.

    Quick are the first strategy everywhere, the second on PostgreSQL, and the pairs that are named.
    """
    cases = [(product, how) for product in products for how in hows]
    quick = {*((product, hows[0]) for product in products), ("postgres", hows[1]), *quick}
    given = [case if case in quick else slow(*case) for case in cases]
    return pytest.mark.parametrize(("place", "how"), given, indirect=["place"])


def options_of(url, **changes):
    given = {"url": url, "give_up": "10 seconds", **changes}
    return SQLSink.options_model().model_validate(given)


def changes(ddl, key, sequence="v"):
    """Return the shape of changes; without a sequence they come batch by batch."""
    return Changelog(ddl, key, sequence)


class Place:
    """A table of a test's own in one of the databases, and its ledger.

    Attributes:
        product: `postgres`, `mariadb` or `sqlite`.
        url: the database's, for the tests.
        server: None for `sqlite`.
        name: the table's.
    """

    def __init__(self, product, url, spark, server=None):
        self.product = product
        self.url = url
        self.spark = spark
        self.server = server
        mark = uuid.uuid4().hex[:8]
        self.name, self.ledger = f"rows {mark}", f"ledger {mark}"
        self._sinks = []
        self._before = self.tables()

    def close(self):
        for sink in self._sinks:
            if "_writer" in vars(sink):
                sink._writer.engine.dispose()

    # -- writing ----------------------------------------------------------------------------

    def sink(self, **changes):
        """Return a sink made anew, as a new run has it."""
        given = {"url": self.url, "table": self.name, "ledger": self.ledger, **changes}
        made = SQLSink(options_of(given.pop("url"), **given))
        self._sinks.append(made)
        return made

    def frame(self, rows, shape, *, ids=False, parts=1):
        """Return rows as the core hands them over: those of a changelog are inserts of version `v`."""
        ddl = ", ".join(column.ddl for column in shape.columns)
        rows = [dict(row) for row in rows]
        if isinstance(shape, Changelog):
            sequence = shape.column(shape.sequence or "")
            ddl += f", {CHANGE_TYPE} STRING, {COMMIT_VERSION} {sequence.type if sequence else 'BIGINT'}"
            ddl += f", {COMMIT_TIMESTAMP} TIMESTAMP"
            given = {CHANGE_TYPE: "insert"}
            rows = [{**given, COMMIT_VERSION: row.get(shape.sequence), **row} for row in rows]
        elif ids:
            ddl += ", _id BINARY"
            rows = [{"_id": hashlib.md5(repr(row).encode()).digest(), **row} for row in rows]
        names = [column.name for column in read_columns(ddl)]
        values = [tuple(row.get(name) for name in names) for row in rows]
        made = self.spark.sparkContext.parallelize(values, parts)
        return self.spark.createDataFrame(made, ddl)

    def batch(
        self,
        shape,
        number=0,
        query_id=CHECKPOINT,
        epoch=1,
        *,
        pipeline="test",
        node="out",
        retried=True,
    ):
        facts = (number, pipeline, "query", query_id, node, self.spark, shape, epoch)
        return Batch(*facts, retried=retried)

    def write(self, rows, shape, how="transactional", *, sink=None, parts=1, **batch):
        """Write a batch as the core does; return the reason of each row that was refused, by `id`.

        Args:
            rows: mappings; columns that one lacks are null.
            shape: what they are; text for events of these columns.
            how: the strategy.
            sink: one that is there already.
            batch: see `batch`.
        """
        shape = Events(shape) if isinstance(shape, str) else shape
        ids = how == "idempotent" and isinstance(shape, Events)
        frame = self.frame(rows, shape, ids=ids, parts=parts)
        made = sink or self.sink()
        return STRATEGIES[how].write(made, frame, self.batch(shape, **batch))

    # -- looking ----------------------------------------------------------------------------

    @property
    def quoted(self):
        return self.mark(self.name)

    def mark(self, name):
        """Return a name as an identifier."""
        mark = "`" if self.product == "mariadb" else '"'
        return f"{mark}{name.replace(mark, mark * 2)}{mark}"

    def ask(self, statement, *values):
        """Run a statement in which `{t}` is the table; return its rows."""
        return ask(self.url, statement.replace("{t}", self.quoted), *values)

    def rows(self, names="id, name", order="1"):
        """Return the rows of some columns as tuples, in order."""
        return self.ask(f"SELECT {names} FROM {{t}} ORDER BY {order}")

    def ids(self):
        return [number for (number,) in self.rows("id")]

    def read(self, ddl, order="1"):
        """Return the columns of some DDL, in types of Spark's."""
        columns = read_columns(ddl)
        names = ", ".join(self.mark(column.name) for column in columns)
        return [
            tuple(typed(value, c.type, self.url) for value, c in zip(row, columns, strict=True))
            for row in self.rows(names, order)
        ]

    def tables(self):
        """Return the names of all tables of the database."""
        if self.product == "sqlite":
            found = self.ask("SELECT name FROM sqlite_master WHERE type = 'table'")
        else:
            found = self.ask("SELECT table_name FROM information_schema.tables")
        return {name for (name,) in found}

    def user(self, password, *grants, superuser=False):
        """Make a user who may do some things, and return the URL by which he comes.

        Args:
            password: PostgreSQL does not ask for it.
            grants: what he may do: SQL in which `{u}` is the user, `{t}` the table.
            superuser: whether he may do everything.
        """
        name = f"u{uuid.uuid4().hex[:8]}"
        if self.product == "postgres":
            made = [f"CREATE ROLE {name} LOGIN {'SUPERUSER' if superuser else ''}"]
        else:
            made = [f"CREATE USER {name} IDENTIFIED BY '{password}'"]
            made += [f"GRANT ALL ON *.* TO {name}"] if superuser else []
        for statement in (*made, *grants):
            self.ask(statement.replace("{u}", name))
        return self.url.replace("root@", "postgres@").replace("postgres@", f"{name}:{password}@")

    def staging(self):
        """Return the names of the staging tables that have come since the test began."""
        return sorted(n for n in self.tables() - self._before if n.startswith("mainstem_stage_"))

    def holding(self, *statements):
        """Open a transaction that has done some things; it ends with the connection (`with`)."""
        connection = connected(self.url)
        cursor = connection.cursor()
        for statement in ("BEGIN IMMEDIATE" if self.product == "sqlite" else "BEGIN", *statements):
            cursor.execute(statement.replace("{t}", self.quoted))
        return closing(connection)


class Tripwire(FaultProxy):
    """A proxy that does something when a client sends what a test waits for.

    Attributes:
        tripped: how often it has.
    """

    def __init__(self, port):
        super().__init__(port)
        self._text, self._number, self._then, self._bytes = b"", 0, None, 0
        self.tripped = 0

    def arm(self, text=b"COMMIT", number=1, then=None, after=0):
        """Act once, when the n-th piece of data with some text comes, before it is passed on.

        Args:
            text: what to wait for.
            number: at which of them.
            then: what to do; the answer is dropped if nothing is given.
            after: wait for so many bytes instead.
        """
        self._text, self._number, self._then, self._bytes = text, number, then, after
        self.tripped = 0

    async def _pass(self, reader, writer, *, answers):
        await super()._pass(reader if answers else _Watched(reader, self), writer, answers=answers)

    async def look(self, data):
        if not self._number and not self._bytes:
            return
        if self._bytes:
            self._bytes -= min(self._bytes, len(data))
            if self._bytes:
                return
        else:
            self._number -= self._text in data
            if self._number:
                return
        self.tripped += 1
        if self._then is None:
            self.drop_answer()
        else:
            await asyncio.get_running_loop().run_in_executor(None, self._then)


class _Watched:
    def __init__(self, reader, proxy):
        self._reader = reader
        self._proxy = proxy

    async def read(self, size):
        data = await self._reader.read(size)
        if data:
            await self._proxy.look(data)
        return data
