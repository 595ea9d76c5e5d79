"""The receiver of the source `postgresql`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from mainstem import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, failpoint
from mainstem_ingress import Given, Message, Receiver, SnapshotThenLog, no_row, row_of

from mainstem_cdc_postgresql.connection import Connection, Stream, written
from mainstem_cdc_postgresql.log import Content, Position, WriteAheadLog
from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.slot import Place, prepare
from mainstem_cdc_postgresql.tables import Table
from mainstem_cdc_postgresql.values import Misfit

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


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
        return [message for each in given for message in self._messages(each)]

    def _look(self, log: WriteAheadLog) -> None:
        """See now and then what is stored while nothing is taken: the slot goes on by that."""
        now = time.monotonic()
        if now - self._looked >= self.options.heartbeat.total_seconds():
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

    # -- messages -----------------------------------------------------------------------------

    def _messages(self, given: Given) -> Iterator[Message]:
        content: Content = (
            Content([("insert", given.content)], time.time_ns() // 1000)
            if given.snapshot
            else given.content
        )
        outputs = self.options.tables
        none = no_row(outputs) if outputs else ()
        if content.text is not None:
            text = content.text
            yield Message(
                text.content,
                timestamp=content.at,
                origin=text.prefix,
                token=given.position,
                extra=none,
            )
            return
        table = self._tables[given.table]
        origin = f"{table.namespace}.{table.table}"
        for kind, values in content.rows:
            message = Message(None, timestamp=content.at, origin=origin, token=given.position)
            try:
                row = table.read(values)
            except Misfit as error:
                yield message._replace(value=table.shown(values), refused=str(error), extra=none)
                continue
            row[CHANGE_TYPE] = kind
            row[COMMIT_VERSION] = sequence(given.position)
            row[COMMIT_TIMESTAMP] = _BEGINNING + timedelta(microseconds=content.at)
            yield message._replace(extra=row_of(outputs, given.table, row))


def sequence(position: Position) -> str:
    """Return a position as text of a fixed width, which orders as positions do."""
    return f"{position[0]:016x}-{position[1]:08x}"
