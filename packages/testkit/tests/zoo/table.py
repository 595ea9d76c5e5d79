"""A sound sink over SQLite, with every ability that sinks can have: what the zoo's faults are made of."""

from __future__ import annotations

import json
import pickle
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from mainstem import (
    Batch,
    FencedError,
    Forgetful,
    IdentifiedWrites,
    KeyedWrites,
    Level,
    LocalPath,
    Options,
    Shown,
    Sink,
    SinkCapabilities,
    Staged,
    Swappable,
    Transactional,
    failpoint,
    option,
)
from mainstem.contracts.shapes import CHANGE_TYPE, COMMIT_VERSION

_TABLES = """
CREATE TABLE IF NOT EXISTS written (checkpoint, batch, row, id UNIQUE);
CREATE TABLE IF NOT EXISTS staged (checkpoint, batch, epoch, row, refused);
CREATE TABLE IF NOT EXISTS ledger (checkpoint, batch, refused, PRIMARY KEY (checkpoint, batch));
CREATE TABLE IF NOT EXISTS runs (checkpoint PRIMARY KEY, epoch);
CREATE TABLE IF NOT EXISTS keyed (key PRIMARY KEY, sequence, row);
"""
_THIS = "checkpoint = ? AND batch = ?"


class ExternalSystem:
    """Stands for the server that the table is on: flags in a folder that the sink looks at."""

    def __init__(self, folder: Path) -> None:
        self._down, self._paused = folder / "down", folder / "paused"

    def stop(self):
        self._down.touch()

    def start(self):
        self._down.unlink(missing_ok=True)

    def pause(self):
        self._paused.touch()

    def resume(self):
        self._paused.unlink(missing_ok=True)

    def connect(self, path: Path) -> sqlite3.Connection:
        while self._paused.exists():
            time.sleep(0.05)
        if self._down.exists():
            raise ConnectionError("the external system is down")
        connection = sqlite3.connect(path)
        connection.executescript(_TABLES)
        return connection


def read(path: Path):
    """Return what a reader of a table sees."""
    if not path.exists():
        return []
    found = sqlite3.connect(path).execute(
        "SELECT row FROM written UNION ALL SELECT row FROM keyed WHERE row IS NOT NULL"
    )
    return [pickle.loads(row) for (row,) in found]


class TableOptions(Options):
    """Options of the table."""

    path: LocalPath = option(description="The file.")


class Table(Sink, Forgetful, Transactional, Staged, KeyedWrites, IdentifiedWrites, Swappable):
    """A sound sink: batches replace themselves, and it has every ability of sinks."""

    options: TableOptions
    shown = {"microbatch": Shown(Level.EXACTLY_ONCE, "packages/testkit/tests/test_sink_suite.py")}
    capabilities = SinkCapabilities(replaces_batch=True, shown=shown)

    def connect(self):
        return ExternalSystem(self.options.path.parent).connect(self.options.path)

    def name(self, batch: Batch):
        return f"{batch.query_id} {batch.sink}", batch.id

    def packed(self, row):
        return pickle.dumps(row.asDict(recursive=True))

    def sorted_out(self, frame):
        """Return the rows to write, and why and what of those that are refused."""
        rows = frame.collect()
        refused = [self.refusal(row) for row in rows]
        return [row for row, why in zip(rows, refused, strict=True) if not why], [
            *filter(None, refused)
        ]

    def refusal(self, row):
        values = row.asDict()
        return ("not wanted here", str(values)) if values.get("name") == "refuse me" else None

    def told(self, refused, batch):
        rows = [(reason, payload.encode()) for reason, payload in refused]
        return batch.spark.createDataFrame(rows, "reason STRING, payload BINARY") if rows else None

    def replace(self, db, table, batch):
        """Remove what an earlier try of a batch has written."""
        db.execute(f"DELETE FROM {table} WHERE {_THIS}", self.name(batch))

    def fill(self, db, rows, batch):
        packed = [(*self.name(batch), self.packed(row)) for row in rows]
        db.executemany("INSERT INTO written (checkpoint, batch, row) VALUES (?, ?, ?)", packed)

    def write(self, frame, batch):
        good, refused = self.sorted_out(frame)
        failpoint("zoo.before-commit")
        with self.connect() as db:
            self.replace(db, "written", batch)
            self.fill(db, good, batch)
            self.enter(db, batch, refused)
        failpoint("zoo.after-commit")
        return self.told(refused, batch)

    # -- ledger -----------------------------------------------------------------------------

    def run(self, batch: Batch):
        """Return what the epochs of runs are kept by."""
        return batch.query_id

    def fence(self, db, batch):
        """Begin a transaction, and end it if the run has been replaced."""
        db.execute(
            "INSERT INTO runs VALUES (?, ?) ON CONFLICT (checkpoint) DO UPDATE"
            " SET epoch = max(epoch, excluded.epoch)",
            (self.run(batch), batch.epoch),
        )
        found = db.execute("SELECT epoch FROM runs WHERE checkpoint = ?", (self.run(batch),))
        if found.fetchone()[0] > batch.epoch:
            raise FencedError("another run of this checkpoint writes")

    def enter(self, db, batch, refused):
        values = *self.name(batch), json.dumps(refused)
        db.execute("INSERT OR REPLACE INTO ledger VALUES (?, ?, ?)", values)

    def entered(self, db, batch):
        """Return what a batch that is in has refused, None if it is not in.

        Raises:
            FencedError: a later batch is in.
        """
        last = "SELECT max(batch) FROM ledger WHERE checkpoint = ?"
        if (db.execute(last, self.name(batch)[:1]).fetchone()[0] or 0) > batch.id:
            raise FencedError("a later batch of this checkpoint is in")
        found = db.execute(f"SELECT refused FROM ledger WHERE {_THIS}", self.name(batch)).fetchone()
        return json.loads(found[0]) if found else None

    def committed(self, batch):
        wanted = f"SELECT 1 FROM ledger WHERE {_THIS}"
        return self.connect().execute(wanted, self.name(batch)).fetchone() is not None

    def write_once(self, frame, batch):
        good, refused = self.sorted_out(frame)
        with self.connect() as db:
            self.fence(db, batch)
            before = self.entered(db, batch)
            if before is None:
                self.fill(db, good, batch)
                self.enter(db, batch, refused)
        return self.told(refused if before is None else before, batch)

    def forget(self, query_id, after):
        with self.connect() as db:
            for table in ("written", "ledger"):
                found = f"DELETE FROM {table} WHERE checkpoint LIKE ? AND batch > ?"
                db.execute(found, (f"{query_id} %", after))

    # -- staging ----------------------------------------------------------------------------

    def stage(self, frame, batch):
        for row in frame.toLocalIterator():
            with self.connect() as db:
                why = self.refusal(row)
                values = None if why else self.packed(row), json.dumps(why) if why else None
                db.execute(
                    "INSERT INTO staged VALUES (?, ?, ?, ?, ?)",
                    (*self.name(batch), batch.epoch, *values),
                )
        return batch.epoch

    def publish(self, staged, batch):
        with self.connect() as db:
            self.fence(db, batch)
            refused = self.entered(db, batch)
            here = *self.name(batch), staged
            if refused is None:
                told = db.execute(
                    f"SELECT refused FROM staged WHERE {_THIS} AND epoch = ? AND row IS NULL", here
                )
                refused = [json.loads(text) for (text,) in told]
                db.execute(
                    "INSERT INTO written (checkpoint, batch, row) SELECT checkpoint, batch, row"
                    f" FROM staged WHERE {_THIS} AND epoch = ? AND row IS NOT NULL",
                    here,
                )
                self.enter(db, batch, refused)
            db.execute(f"DELETE FROM staged WHERE {_THIS} AND epoch = ?", here)
        return self.told(refused, batch)

    def discard(self, batch):
        with self.connect() as db:
            self.fence(db, batch)
            db.execute("DELETE FROM staged WHERE checkpoint = ?", self.name(batch)[:1])

    # -- built beside -----------------------------------------------------------------------

    def beside(self, suffix):
        path = self.options.path
        beside = path.with_name(f"{path.name}{suffix}")
        return type(self)(self.options.model_copy(update={"path": beside}))

    def clear(self):
        self.options.path.unlink(missing_ok=True)

    def swap(self, built):
        if not built.options.path.exists():
            return
        with closing(self.connect()) as db:
            db.execute("ATTACH ? AS built", (str(built.options.path),))
            with db:
                for table in ("written", "keyed"):
                    self.empty(db, table)
                    db.execute(f"INSERT INTO main.{table} SELECT * FROM built.{table}")
        built.clear()

    def empty(self, db, table):
        db.execute(f"DELETE FROM main.{table}")

    # -- rows that are known ----------------------------------------------------------------

    def write_new(self, frame, batch):
        good, refused = self.sorted_out(frame)
        with self.connect() as db:
            self.fence(db, batch)
            rows = [(*self.name(batch), self.packed(row), row["_id"]) for row in good]
            db.executemany("INSERT OR IGNORE INTO written VALUES (?, ?, ?, ?)", rows)
        return self.told(refused, batch)

    def write_keyed(self, frame, batch):
        good, refused = self.sorted_out(frame)
        with self.connect() as db:
            self.fence(db, batch)
            for row in good:
                if row[CHANGE_TYPE] != "update_preimage":
                    key = json.dumps([row[name] for name in batch.shape.key])
                    packed = None if row[CHANGE_TYPE] == "delete" else self.packed(row)
                    self.set(db, key, row[COMMIT_VERSION], packed, self.when(batch))
        return self.told(refused, batch)

    newer = "WHERE excluded.sequence > keyed.sequence"

    def when(self, batch):
        """Return the condition under which a change takes the place of what is there."""
        return self.newer if batch.shape.sequence else ""

    def set(self, db, key, sequence, row, when):
        db.execute(
            "INSERT INTO keyed VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
            f" SET sequence = excluded.sequence, row = excluded.row {when}",
            (key, sequence, row),
        )
