"""The receiver of a table: one version of it whole, then the changes of each version."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from mainstem import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    PermanentError,
    failpoint,
)
from mainstem_ingress import Columns, Message, Receiver, Rows
from mainstem_ingress.tables import columns_of, struct_type

from mainstem_lake.options import LakeSourceOptions
from mainstem_lake.source import ROWS
from mainstem_lake.table import LakeTable, actual, fits

#: So many rows of a snapshot are given at a time.
_ROWS = 50_000
_TIME = pa.timestamp("us", "UTC")
#: By each kind of change, whether a row comes by it or goes.
_COMES = {"delete": 0, "update_preimage": 0, "insert": 1, "update_postimage": 1}


class LakeReceiver(Receiver):
    """Reads a table; nothing is acknowledged, for its place is the cursor.

    The cursor has the table's id and the last version that was given whole; while a version is read as
    a snapshot, how many of its rows were.
    """

    options: LakeSourceOptions

    @abstractmethod
    def table(self, version: int | None = None) -> LakeTable:
        """Return the table at a version; the newest, if none is said."""

    def __init__(self, options: LakeSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._kind = struct_type(ROWS, options.shape())
        self._begin()

    def _begin(self) -> None:
        self._id = self._place = ""
        self._version, self._newest, self._began = -1, -1, -1
        #: How many rows of the snapshot were given; None once all were.
        self._given: int | None = None
        self._rows: Iterator[pa.RecordBatch] | None = None
        self._looked = 0.0
        self._table: LakeTable | None = None
        self._paused = False
        self._waiting: int | None = None

    def connect(self, cursor: str | None) -> None:
        self._begin()
        known = json.loads(cursor) if cursor is not None else None
        if known is not None:
            self._id, self._version, self._given = known["table"], known["version"], known["given"]
        table = self._looked_at()
        self._newest = self._began = table.version
        if known is None:
            self._id, self._version = table.identity, table.version
            self._given = 0 if self.options.snapshot == "initial" else None
        table.check_feed()
        if self._given is not None:
            count = table.count()
            self._waiting = None if count is None else max(0, count - self._given)
        failpoint("lake.after-connect")

    def _looked_at(self) -> LakeTable:
        """Return the table as it is now.

        Raises:
            PermanentError: it is not the one that was read, or lacks a column.
        """
        table = self.table()
        self._place = table.place
        if not table.there:
            raise PermanentError(f"there is no table at {table.place}")
        if self._id and (table.identity != self._id or table.version < self._version):
            raise PermanentError(
                f"the table at {table.place} was made anew: begin with another checkpoint"
            )
        there = {name.lower() for name in table.schema.names}
        missing = [c.name for c in self.options.table_schema if c.name.lower() not in there]
        if missing:
            raise PermanentError(f"the table at {table.place} has no column {', '.join(missing)}")
        return table

    def take(self, seconds: float) -> Iterable[Message]:
        if not self._paused:
            if self._given is not None:
                return self._snapshot()
            now = time.monotonic()
            due = now - self._looked >= self.options.poll.total_seconds()
            if self._table is None or (self._version >= self._newest and due):
                self._looked = now
                self._table = self._looked_at()
                self._newest = self._table.version
            following = self._table.following(self._version)
            if following is not None:
                return self._next(self._table, following)
        time.sleep(seconds)
        return []

    def _snapshot(self) -> Iterable[Message]:
        """Return the next rows of the version that is read whole."""
        assert self._given is not None  # noqa: S101
        if self._rows is None:
            self._rows = _behind(self.table(self._version).rows(), self._given)
        parts, count = [], 0
        for batch in self._rows:
            parts.append(batch)
            count += batch.num_rows
            if count >= _ROWS:
                break
        else:
            self._rows = self._given = None
        failpoint("lake.after-snapshot")
        if self._given is not None:
            self._given += count
        if not count:
            return []
        rows = pa.Table.from_batches(parts)
        now = pa.array([time.time_ns() // 1000] * count, _TIME)
        return self._told(rows, ["insert"] * count, self._version, now)

    def _next(self, table: LakeTable, version: int) -> Iterable[Message]:
        """Return the changes of the next version, all of them: they have no order to go on in."""
        there = table.schema.names
        names = [column.name for column in self.options.table_schema]
        key = actual(self.options.key, there)
        rows = table.changes(version, key, actual(names, there))
        failpoint("lake.after-changes")
        self._version = version
        if rows is None:
            return []
        kinds: Any = rows.column(CHANGE_TYPE).to_pylist()
        told = _by_key(kinds, rows.select(key))
        # What goes before what comes: a version can replace a row by another one of its key.
        order = sorted(range(len(told)), key=lambda at: _COMES[told[at]])
        if not self.options.preimages:
            order = [at for at in order if told[at] != "update_preimage"]
        rows = rows.take(pa.array(order, pa.int64()))
        at = rows.column(COMMIT_TIMESTAMP).cast(_TIME).combine_chunks()
        return self._told(rows, [told[at] for at in order], version, at)

    def _told(self, rows: pa.Table, kinds: Sequence[str], version: int, times: Any) -> Rows:
        """Return rows as the log has them."""
        columns: dict[str, Any] = {}
        known = {name.lower(): name for name in rows.column_names}
        for at, column in enumerate(self.options.table_schema):
            kind: Any = self._kind.field(at).type
            name = known.get(column.name.lower())
            if name is None:  # an older version lacks it
                continue
            have: Any = rows.column(name).type
            try:
                if not fits(have, kind, whole=False):
                    raise pa.ArrowInvalid(f"the table has {have}")
                columns[column.name] = rows.column(name).cast(kind).combine_chunks()
            except pa.ArrowException as error:
                raise PermanentError(
                    f"version {version} of {self._place}: {column.name} is no "
                    f"{(column.type or '').upper()}: {error}"
                ) from None
        versions = [f"{version:016x}-{_COMES[kind]}" for kind in kinds]
        columns[CHANGE_TYPE] = pa.array(kinds, pa.string())
        columns[COMMIT_VERSION] = pa.array(versions, pa.string())
        columns[COMMIT_TIMESTAMP] = times
        micros = times.cast(pa.int64()).to_pylist()
        return Rows([Columns(ROWS, columns_of(self._kind, columns), micros, self._place)])

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Nothing: the cursor is all."""

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def cursor(self) -> str | None:
        return json.dumps({"table": self._id, "version": self._version, "given": self._given})

    def waiting(self) -> int | None:
        return self._waiting

    def caught_up(self) -> bool | None:
        return self._given is None and self._version >= self._began

    def gauges(self) -> dict[str, float]:
        return {"log_behind_versions": max(0, self._newest - self._version)}

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"table": self._place, "version": self._version}
        if self._given is not None:
            found["doing"] = f"reads version {self._version}: {self._given:,} rows"
        return found


def _behind(batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """Yield what comes behind so many rows, in pieces of some size."""
    for batch in batches:
        rest = batch
        if count:
            passed = min(count, batch.num_rows)
            count -= passed
            rest = batch.slice(passed)
        for start in range(0, rest.num_rows, _ROWS):
            yield rest.slice(start, _ROWS)


def _plain(column: Any) -> Any:
    """Return a column whose values Python has: times, some of which it has not, as numbers."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _by_key(kinds: list[str], keys: pa.Table) -> list[str]:
    """Return kinds of changes, of an update that gives a row another key: one row goes, another comes."""
    if "update_preimage" not in kinds:
        return kinds
    rows = list(zip(*(_plain(column).to_pylist() for column in keys.columns), strict=True))
    there = set(zip(rows, kinds, strict=True))

    def told(row: Any, kind: str) -> str:
        if kind == "update_preimage" and (row, "update_postimage") not in there:
            return "delete"
        if kind == "update_postimage" and (row, "update_preimage") not in there:
            return "insert"
        return kind

    return [told(row, kind) for row, kind in zip(rows, kinds, strict=True)]
