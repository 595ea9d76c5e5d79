"""A sink over SQLite, and what can be wrong with it: one class, and one word, for each fault."""

from __future__ import annotations

import json
import pickle
import sqlite3
import time
from pathlib import Path

from mainstem import (
    MESSAGES,
    Accepts,
    Batch,
    Changelog,
    LocalPath,
    Options,
    Sink,
    SinkCapabilities,
    failpoint,
    option,
)
from mainstem.contracts.shapes import CHANGE_TYPE

_TABLES = """
CREATE TABLE IF NOT EXISTS written (checkpoint, batch, row);
CREATE TABLE IF NOT EXISTS staged (checkpoint, batch, row);
CREATE TABLE IF NOT EXISTS ledger (checkpoint, batch, PRIMARY KEY (checkpoint, batch));
CREATE TABLE IF NOT EXISTS keyed (key PRIMARY KEY, sequence, row);
"""
_THIS = "checkpoint = ? AND batch = ?"


class FarSide:
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
            raise ConnectionError("the far side is down")
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


class Table(Sink):
    """A sound sink: batches replace themselves, and it has every ability of sinks."""

    options: TableOptions
    capabilities = SinkCapabilities(replaces_batch=True)

    def connect(self):
        return FarSide(self.options.path.parent).connect(self.options.path)

    def name(self, batch: Batch):
        return batch.query_id, batch.id

    def packed(self, row):
        return pickle.dumps(row.asDict(recursive=True))

    def sorted_out(self, frame):
        rows = frame.collect()
        good = [row for row in rows if row.asDict().get("name") != "refuse me"]
        return good, [row for row in rows if row not in good]

    def clear(self, db, table, batch):
        db.execute(f"DELETE FROM {table} WHERE {_THIS}", self.name(batch))

    def fill(self, db, table, rows, batch):
        packed = [(*self.name(batch), self.packed(row)) for row in rows]
        db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", packed)

    def enter(self, db, batch):
        db.execute("INSERT OR REPLACE INTO ledger VALUES (?, ?)", self.name(batch))

    def write(self, frame, batch):
        good, refused = self.sorted_out(frame)
        failpoint("zoo.before-commit")
        with self.connect() as db:
            self.clear(db, "written", batch)
            self.fill(db, "written", good, batch)
            self.enter(db, batch)
        failpoint("zoo.after-commit")
        return self.told(refused, batch)

    def told(self, refused, batch):
        rows = [("not wanted here", json.dumps(row.asDict()).encode()) for row in refused]
        return batch.spark.createDataFrame(rows, "reason STRING, payload BINARY") if rows else None

    def committed(self, batch):
        found = self.connect().execute(f"SELECT 1 FROM ledger WHERE {_THIS}", self.name(batch))
        return found.fetchone() is not None

    def write_once(self, frame, batch):
        return None if self.committed(batch) else self.write(frame, batch)

    def stage(self, frame, batch):
        for row in frame.toLocalIterator():
            with self.connect() as db:
                self.fill(db, "staged", [row], batch)
        return self.name(batch)

    def publish(self, staged, batch):
        with self.connect() as db:
            if not self.committed(batch):
                db.execute(f"INSERT INTO written SELECT * FROM staged WHERE {_THIS}", staged)
                self.enter(db, batch)
            self.clear(db, "staged", batch)

    def discard(self, batch):
        with self.connect() as db:
            self.clear(db, "staged", batch)

    def forget(self, query_id, after):
        with self.connect() as db:
            for table in ("written", "ledger"):
                db.execute(
                    f"DELETE FROM {table} WHERE checkpoint = ? AND batch > ?", (query_id, after)
                )

    newer = "WHERE excluded.sequence > keyed.sequence"

    def write_keyed(self, frame, batch, key, sequence):
        with self.connect() as db:
            for row in frame.collect():
                if row[CHANGE_TYPE] != "update_preimage":
                    values = json.dumps([row[name] for name in key]), row[sequence]
                    self.set(
                        db, *values, None if row[CHANGE_TYPE] == "delete" else self.packed(row)
                    )

    def set(self, db, key, sequence, row):
        db.execute(
            "INSERT INTO keyed VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
            f" SET sequence = excluded.sequence, row = excluded.row {self.newer}",
            (key, sequence, row),
        )


class Changes(Table):
    """Takes changes alone, each with its `_id`."""

    accepts = Accepts((Changelog,))
    capabilities = SinkCapabilities(replaces_batch=True, needs_id=True)

    def packed(self, row):
        assert len(row["_id"]) == 16
        assert row[CHANGE_TYPE]
        return super().packed(row)


class MessageTable(Table):
    """Takes messages alone."""

    accepts = MESSAGES


class Doubling(Table):
    """Writes a retried batch beside the first."""

    def clear(self, db, table, batch):
        pass


class Half(Table):
    """Enters a batch into its ledger first, so that the tail of a cut one never comes."""

    def write(self, frame, batch):
        if self.committed(batch):
            return
        with self.connect() as db:
            self.enter(db, batch)
        for row in frame.toLocalIterator():
            with self.connect() as db:
                self.fill(db, "written", [row], batch)


class Deaf(Table):
    """Goes on when the far side fails."""

    def write(self, frame, batch):
        try:
            return super().write(frame, batch)
        except ConnectionError:
            return None


class DeafToTasks(Table):
    """Goes on when a task fails."""

    def sorted_out(self, frame):
        try:
            return super().sorted_out(frame)
        except Exception:
            return [], []


class Coarse(Table):
    """Cuts times to the second."""

    def packed(self, row):
        times = {n: v.replace(microsecond=0) for n, v in row.asDict().items() if hasattr(v, "hour")}
        return pickle.dumps({**row.asDict(recursive=True), **times})


class Blank(Table):
    """Knows no null text."""

    def packed(self, row):
        values = {n: "" if v is None else v for n, v in row.asDict(recursive=True).items()}
        return pickle.dumps(values)


class Late(Table):
    """Finds out with the first batch that it can't hold a type."""

    def packed(self, row):
        if any(isinstance(value, list) for value in row):
            raise TypeError("no lists, please")
        return super().packed(row)


class Mumbling(Table):
    """Refuses a type without saying where."""

    def check_types(self, columns):
        from mainstem import OptionError

        if any(column.type == "binary" for column in columns):
            raise OptionError("no bytes, please")


class Backwards(Table):
    """Lets older rows overwrite newer ones."""

    newer = ""


class Undying(Table):
    """Forgets what was deleted, so that an older row comes back."""

    def set(self, db, key, sequence, row):
        super().set(db, key, sequence, row)
        db.execute("DELETE FROM keyed WHERE row IS NULL")


class Boaster(Table):
    """Says that every batch is in."""

    def committed(self, batch):
        return True


class Forgetter(Table):
    """Says that no batch is in."""

    def committed(self, batch):
        return False


class OpenStage(Table):
    """Stages where everybody reads."""

    def stage(self, frame, batch):
        with self.connect() as db:
            self.fill(db, "written", frame.collect(), batch)


class Litter(Table):
    """Leaves what an earlier try has staged."""

    def discard(self, batch):
        pass


class Nameless(Table):
    """Takes the batches of all checkpoints for one."""

    def name(self, batch):
        return "", batch.id


class Swallower(Table):
    """Drops rows that it does not want."""

    def told(self, refused, batch):
        return None


class Counting(Table):
    """Counts the rows before it writes them."""

    def write(self, frame, batch):
        frame.count()
        return super().write(frame, batch)


class Amnesiac(Table):
    """Takes back what others wrote, too."""

    def forget(self, query_id, after):
        with self.connect() as db:
            db.execute("DELETE FROM written WHERE batch > ?", (after,))


SINKS: dict[str, type[Sink]] = {
    "zoo_table": Table,
    "zoo_changes": Changes,
    "zoo_message_table": MessageTable,
    "zoo_doubling": Doubling,
    "zoo_half": Half,
    "zoo_deaf": Deaf,
    "zoo_deaf_to_tasks": DeafToTasks,
    "zoo_coarse": Coarse,
    "zoo_blank": Blank,
    "zoo_late": Late,
    "zoo_mumbling": Mumbling,
    "zoo_backwards": Backwards,
    "zoo_undying": Undying,
    "zoo_boaster": Boaster,
    "zoo_forgetter": Forgetter,
    "zoo_open_stage": OpenStage,
    "zoo_litter": Litter,
    "zoo_nameless": Nameless,
    "zoo_swallower": Swallower,
    "zoo_counting": Counting,
    "zoo_amnesiac": Amnesiac,
}
