"""What the tests of the source share: it is driven as Spark does it, without Spark.

As a program it makes processes that read; see `Processes`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import resource
import subprocess
import sys
import traceback
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from mainstem import crashpoints, failpoint
from mainstem_database_sql.source import selecting
from mainstem_database_sql.source.options import SQLSourceOptions
from mainstem_database_sql.source.reading import TableReading
from mainstem_database_sql.source.storing import read
from mainstem_database_sql.source.values import schema_of

PRODUCTS = ["sqlite", "postgres", "mariadb"]


class Place:
    """A database, and a name for a table of a test's own.

    Use it in a `with`: at its end the table is dropped.
    """

    def __init__(self, product, url):
        self.product = product
        self.url = url
        self.table = f"t{uuid.uuid4().hex[:10]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ask("DROP TABLE IF EXISTS {t}")

    @property
    def mark(self):
        """What stands for a value in a statement."""
        return "?" if self.product == "sqlite" else "%s"

    def ask(self, statement, *values):
        """Run a statement about the table `{t}`; return its rows."""
        from sql_databases import ask

        return ask(self.url, statement.replace("{t}", self.table), *values)

    def connected(self):
        from sql_databases import connected

        return closing(connected(self.url))

    def rows(self, first, end):
        """Put rows with the numbers from one up to another."""
        values = ", ".join(f"({number}, 'name {number}')" for number in range(first, end))
        self.ask(f"INSERT INTO {{t}} (id, name) VALUES {values}")

    def options(self, columns="id BIGINT, name STRING", **more):
        return options(self.url, self.table, columns, **more)

    def polling(self, columns="id BIGINT, name STRING", **more):
        return polling(self.url, self.table, columns, **more)


def mostly(*products):
    """Return the products as parameters, those that are not named marked slow."""
    return [p if p in products else pytest.param(p, marks=pytest.mark.slow) for p in PRODUCTS]


def place_of(request, tmp_path):
    """Return the place for a fixture whose parameter is a product."""
    if request.param == "sqlite":
        return Place("sqlite", f"sqlite:///{tmp_path}/table.db")
    return Place(request.param, request.getfixturevalue(request.param).url)


def plain(place, columns="id BIGINT, name STRING", **more):
    """The options of a source as a document has them."""
    return {"url": place.url, "table": place.table, "schema": columns, **more}


def options(url, table, columns="id BIGINT, name STRING", **more):
    """The options of a source, as a document gives them."""
    given = {"url": url, "table": table, "schema": columns, "give_up": "2 seconds", **more}
    return SQLSourceOptions.model_validate(given)


def polling(url, table, columns="id BIGINT, name STRING", **more):
    """The options of a source that polls."""
    given = {"mode": "poll", "column": "id", "settle": "1 ms", "every": "1 ms", **more}
    return options(url, table, columns, **given)


class Checkpoint:
    """A checkpoint of Spark's, and the calls that a source gets, in Spark's order.

    The sink is one that replaces a batch which is written again.
    """

    def __init__(self, folder, options, *, reading="q", home=None, follows=True, since=None):
        self.folder = Path(folder)
        self.home = Path(home or self.folder / "node")
        for each in (self.folder / "offsets", self.folder / "commits", self.folder / "out"):
            each.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(exist_ok=True)
        self.options = options
        key = hashlib.sha256(f"{reading}{follows}".encode()).hexdigest()[:24]
        self.planner = TableReading(options, self.home, key, follows, since, 2).planner()

    def offset(self, batch):
        file = self.folder / "offsets" / str(batch)
        return json.loads(file.read_text()) if file.exists() else None

    def put(self, log, batch, value):
        new = self.folder / log / f".{batch}"
        new.write_text(json.dumps(value, default=str))
        new.rename(self.folder / log / str(batch))

    def done(self, batch):
        return (self.folder / "commits" / str(batch)).exists()

    def next(self):
        """Do one batch; return its rows, or None if there was nothing new."""
        batch = len(list((self.folder / "commits").glob("[0-9]*")))
        start = self.offset(batch - 1) if batch else self.planner.initial()
        end = self.offset(batch)
        if end is None:
            end = self.planner.latest(start)
            if batch and end == start:
                return None
            self.put("offsets", batch, end)
            if batch:
                self.planner.committed(start)
        schema = schema_of(self.options.table_schema)
        rows = [
            row
            for file, first, last in self.planner.parts(start, end)
            for part in read(file, first, last, schema)
            for row in part.to_pylist()
        ]
        self.put("out", batch, rows)
        failpoint("run.after-batch")
        self.put("commits", batch, None)
        return rows

    def batches(self, *, bounded=True):
        """Do batches until there is nothing new; return the rows of each."""
        if bounded:
            self.planner.prepare()
        found = []
        while (rows := self.next()) is not None:
            found.append(rows)
            if len(found) > 1000:
                raise AssertionError("there is no end")
        return found

    def read(self, *, bounded=True):
        """Return the rows of all batches until there is nothing new."""
        try:
            return [row for rows in self.batches(bounded=bounded) for row in rows]
        finally:
            self.planner.close()

    def out(self):
        """Return all rows that are in the sink."""
        files = sorted((self.folder / "out").glob("[0-9]*"), key=lambda file: int(file.name))
        return [row for file in files for row in json.loads(file.read_text())]


class Apart(Checkpoint):
    """A checkpoint that processes of their own read, which can be killed."""

    def __init__(self, folder, given):
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "given.json").write_text(json.dumps(given))
        super().__init__(folder, SQLSourceOptions.model_validate(given))


class Processes:
    """Makes processes that read, each by `fork` from one that has imported everything.

    Use it in a `with`.
    """

    def __enter__(self):
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_):
        self._server.communicate()

    def read(self, reading, what="batches", **env):
        """Let a process read to the end; return its exit code, below 0 for a signal, and its output."""
        asked = {"folder": str(reading.folder), "what": what, "env": env}
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return code, (reading.folder / "told").read_text()


#: What a first reading imports; each process would again.
_LATE = [
    "pandas",
    "psycopg",
    "pymysql",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.dialects.postgresql",
]


def _serve():
    for name in [*_LATE, "sqlalchemy.dialects.mysql"]:
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            _child(asked)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _child(asked):
    code = 1
    try:
        told = os.open(Path(asked["folder"], "told"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(told, 1)
        os.dup2(told, 2)
        os.environ.update(asked["env"])
        importlib.reload(crashpoints)  # it looks at the environment once
        given = json.loads(Path(asked["folder"], "given.json").read_text())
        reading = Checkpoint(asked["folder"], SQLSourceOptions.model_validate(given))
        if asked["what"] == "measure":
            print(json.dumps(_measured(reading)), flush=True)
        else:
            reading.batches()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _measured(reading):
    """Read all without keeping it; return how many rows there were, and the most memory in bytes.

    It is looked at when each part was taken from the table, and each from a file.
    """
    seen = []
    parts = selecting.Table.parts

    def watched(self, where=None):
        for part in parts(self, where):
            seen.append(_resident())
            yield part

    selecting.Table.parts = watched
    planner, schema = reading.planner, schema_of(reading.options.table_schema)
    rows, start = 0, planner.initial()
    planner.prepare()
    while (end := planner.latest(start)) != start:
        for file, first, last in planner.parts(start, end):
            for part in read(file, first, last, schema):
                rows += part.num_rows
                seen.append(_resident())
        planner.committed(start)
        start = end
    return {"rows": rows, "peak": max(seen)}


def _resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    _serve()
