"""The receiver of the source `postgresql`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from mainstem import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, failpoint
from mainstem_ingress import (
    Columns,
    Given,
    Message,
    Receiver,
    Rows,
    SnapshotThenLog,
    columns_of,
    no_row,
    struct_type,
)

from mainstem_cdc_postgresql.connection import Connection, Stream, written
from mainstem_cdc_postgresql.log import Position, Run, Said, WriteAheadLog
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions, shapes
from mainstem_cdc_postgresql.slot import Place, prepare
from mainstem_cdc_postgresql.tables import Table, Values

#: How often it is looked up whether a place is stored, in seconds.
_LOOKING = 0.5


class PostgreSQLReceiver(Receiver):
    """Takes rows of tables, and the changes of a slot."""

    options: PostgreSQLSourceOptions

    def __init__(self, options: PostgreSQLSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._connection: Connection | None = None
        self._stream: Stream | None = None
        self._log: WriteAheadLog | None = None
        self._all: SnapshotThenLog | None = None
        self._tables: dict[str, Table] = {}
        self._types: dict[str, Any] = {}
        #: Where the server's log was when this process began.
        self._end: int | None = None
        self._paused = False
        self._looked = 0.0

    def connect(self, cursor: str | None) -> None:
        options = self.options
        self._paused, self._looked = False, time.monotonic()
        place = None if cursor is None else Place.decoded(cursor)
        nulls = options.on_missing_column == "null"
        self._tables = {
            name: Table(name, each, nulls=nulls) for name, each in options.tables.items()
        }
        self._connection = Connection(options)
        self._stream = Stream(options)
        begin = prepare(self._connection, self._stream, options, list(self._tables.values()), place)
        self._stream.begin(options.slot, options.published, begin)
        at: Position = [begin, 0] if place is None else json.loads(place.tables)["log"]
        self._types = {name: struct_type(name, shape) for name, shape in shapes(options).items()}
        log = WriteAheadLog(self._connection, self._stream, options, self._tables, at)
        self._end = log.awaited = self._stream.end if self._end is None else self._end
        wanted = [] if options.snapshot == "never" else list(self._tables)
        stored = None if place is None else place.tables
        self._all = SnapshotThenLog(log, wanted, stored, options.chunk_rows, begin=at)
        self._log = log
        failpoint("postgresql.after-connect")

    def take(self, seconds: float) -> Iterable[Message]:
        log, source = self._log, self._all
        assert log is not None  # noqa: S101
        assert source is not None  # noqa: S101
        if self._paused:
            log.idle(seconds)
            return []
        given = source.take(seconds)
        if given:
            failpoint("postgresql.after-take")
        else:
            self._look(log)
        return self._taken(given, log.reached)

    def _look(self, log: WriteAheadLog) -> None:
        """See now and then what is stored while nothing is taken: the slot goes on by that."""
        now = time.monotonic()
        if log.reached[0] > log.stored and now - self._looked >= _LOOKING:
            self._looked = now
            cursor = self.stored_cursors().get(self.number)
            if cursor is not None:
                log.keep([Place.decoded(cursor).log, 0])

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if self._log is not None:
            failpoint("postgresql.before-confirm")
            self._log.keep(messages[-1].token)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        for each in (self._stream, self._connection):
            if each is not None:
                each.close()
        self._log = self._all = self._stream = self._connection = None

    def cursor(self) -> str | None:
        if self._all is None or self._stream is None:
            return None
        return Place(self._stream.system, self._all.cursor()).encoded()

    def caught_up(self) -> bool | None:
        if self._all is None or self._log is None or self._end is None:
            return False
        return not self._all.loading and self._log.reached[0] >= self._end

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"server": self.options.place}
        if self._log is not None and self._all is not None and self._stream is not None:
            at = self._log.reached[0]
            found |= {
                "log": written(at),
                "stored": written(self._log.stored),
                "loading": self._all.loading,
                "truncated": self._log.truncated,
            }
        return found

    # -- rows and messages --------------------------------------------------------------------

    def _taken(self, given: Sequence[Given], reached: Position) -> list[Message] | Rows:
        """Return what was given as columns for each table, and messages."""
        none = no_row(self.options.tables) if self.options.tables else ()
        messages: list[Message] = []
        batches: dict[str, _Batch] = {}
        for each in given:
            if isinstance(each.content, Said):
                text, at = each.content
                messages.append(
                    Message(
                        text.content,
                        timestamp=at,
                        origin=text.prefix,
                        token=each.position,
                        extra=none,
                    )
                )
                continue
            batch = batches.get(each.table)
            if batch is None:
                batch = batches[each.table] = _Batch()
            if each.snapshot:
                batch.add_rows(each.content, sequence(each.position))
            else:
                batch.add_run(each.content)
        if not batches:
            return messages
        parts: list[Columns | list[Message]] = [messages] if messages else []
        for name, batch in batches.items():
            parts += batch.parts(self._tables[name], self._types[name], reached, none)
        return Rows(parts)


class _Batch:
    """Changes of one table, of which columns are made."""

    def __init__(self) -> None:
        self._kinds: list[str] = []
        self._versions: list[str] = []
        self._at: list[int] = []
        self._rows: list[Values] = []

    def add_run(self, run: Run) -> None:
        """Add changes of the log."""
        self._kinds += run.kinds
        commit = f"{run.commit:016x}-"
        self._versions += [f"{commit}{number:08x}" for number in run.numbers]
        self._at += [run.at] * len(run.rows)
        self._rows += run.rows

    def add_rows(self, rows: Sequence[Values], version: str) -> None:
        """Add rows of a snapshot."""
        count = len(rows)
        self._kinds += ["insert"] * count
        self._versions += [version] * count
        self._at += [time.time_ns() // 1000] * count
        self._rows += rows

    def parts(
        self, table: Table, kind: Any, reached: Position, none: tuple[Any, ...]
    ) -> list[Columns | list[Message]]:
        """Return the rows as columns, and messages for those that are refused.

        Args:
            kind: the type of the rows in the log.
            reached: the place to acknowledge them by.
            none: what a message of no table has as `extra`.
        """
        origin = f"{table.namespace}.{table.table}"
        columns, refused = table.read(self._rows)
        columns[CHANGE_TYPE] = pa.array(self._kinds, pa.string())
        columns[COMMIT_VERSION] = pa.array(self._versions, pa.string())
        columns[COMMIT_TIMESTAMP] = pa.array(self._at, pa.timestamp("us", "UTC"))
        rows, at = columns_of(kind, columns), self._at
        if refused:
            kept = [number not in refused for number in range(len(at))]
            rows = rows.filter(pa.array(kept))
            at = [each for each, keep in zip(at, kept, strict=True) if keep]
        parts: list[Columns | list[Message]] = []
        if refused:
            parts.append(
                [
                    Message(
                        table.shown(self._rows[number]),
                        timestamp=self._at[number],
                        origin=origin,
                        token=reached,
                        refused=why,
                        extra=none,
                    )
                    for number, why in sorted(refused.items())
                ]
            )
        if len(rows):
            parts.append(Columns(table.name, rows, at, origin, token=reached))
        return parts


def sequence(position: Position) -> str:
    """Return a position as text of a fixed width, which orders as positions do."""
    return f"{position[0]:016x}-{position[1]:08x}"
