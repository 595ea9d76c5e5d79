"""What a receiver of change data capture does with tables and their log."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa
from mainstem import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, TransientError, failpoint
from mainstem_ingress import (
    Columns,
    Message,
    Receiver,
    Rows,
    columns_of,
    lost,
    no_row,
    struct_type,
)

from mainstem_cdc.columns import PrintedRows
from mainstem_cdc.log import DatabaseLog
from mainstem_cdc.options import ALL, CaptureOptions
from mainstem_cdc.requests import Cursor, Requests
from mainstem_cdc.snapshots import Given, Position, SnapshotThenLog, behind_gap
from mainstem_cdc.tables import GapError, Run, Table, Values, sequence

#: How often it is looked up whether a place is stored, in seconds.
_LOOKING = 0.5


class Opened(NamedTuple):
    """A log that is open.

    Attributes:
        begin: the position behind which it is read.
    """

    log: DatabaseLog[Any]
    tables: Mapping[str, Table]
    begin: Position


class CaptureReceiver(Receiver):
    """Takes rows of tables, and the changes of their log.

    Its author writes `open`.
    """

    options: CaptureOptions

    def __init__(self, options: CaptureOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._log: DatabaseLog[Any] | None = None
        self._all: SnapshotThenLog | None = None
        self._tables: Mapping[str, Table] = {}
        self._types: dict[str, Any] = {}
        #: How many rows there are about, of the table that is being read, and when that was begun.
        self._about: tuple[str, int | None, float, int] | None = None
        #: Where the server's log was when this process began.
        self._end: Position = None
        self._paused = False
        self._looked = 0.0
        #: Changes that are lost, before it is begun behind them, and before that is told.
        self._gap: GapError | None = None
        self._lost: Message | None = None
        #: What a message of no table has as `extra`.
        self._none: tuple[Any, ...] = ()

    @abstractmethod
    def open(self, cursor: Cursor | None, *, again: bool) -> Opened:
        """Connect to the server, and see that all goes on from a cursor.

        Its log waits for `awaited`, where the server's log ends now. What was opened is closed by this
        method where it fails.

        Args:
            again: whether changes behind the cursor may be lost, as the tables are read again: begin
                where the log can be had now, at a position above the cursor's.

        Raises:
            GapError: the server has no longer what comes behind the cursor.
        """

    def connect(self, cursor: str | None) -> None:
        options = self.options
        # What was asked for is followed before a table is read on: it may be that it can't be.
        self._paused, self._looked = False, 0.0
        place = None if cursor is None else Cursor.decoded(cursor)
        shapes = options.shapes()
        self._types = {name: struct_type(name, shape) for name, shape in shapes.items()}
        self._none = no_row(shapes) if shapes else ()
        (self._log, self._tables, begin), tables = self._opened(place)
        if self._end is None:
            self._end = self._log.awaited
        self._log.awaited = max(self._log.awaited, self._end)
        self._all = SnapshotThenLog(
            self._log, list(self._tables), tables, options.chunk_rows, begin=begin,
            initial=options.snapshot == "initial",
        )  # fmt: skip
        failpoint("cdc.after-connect")

    def _opened(self, place: Cursor | None) -> tuple[Opened, str | None]:
        """Return what is open, and the state of `SnapshotThenLog`."""
        self._lost, gap, self._gap = None, self._gap, None
        try:
            if gap is None:
                return self.open(place, again=False), None if place is None else place.tables
        except GapError as error:
            if place is None or self.options.on_gap == "fail":
                raise
            gap = error
        if place is None:  # nothing was stored yet
            return self.open(None, again=False), None
        opened = self.open(place, again=True)
        why = f"{gap.why}; the tables are read again"
        self._lost = lost(why, origin=self.options.place, extra=self._none)._replace(
            timestamp=time.time_ns() // 1000, token=opened.begin
        )
        return opened, behind_gap(place.tables, opened.begin)

    def take(self, seconds: float) -> Iterable[Message]:
        log, source = self._log, self._all
        assert log is not None  # noqa: S101
        assert source is not None  # noqa: S101
        if self._paused:
            log.idle(seconds)
            return []
        now = time.monotonic()
        looks = now - self._looked >= _LOOKING
        if looks:
            self._looked = now
            self._ask(source)
        try:
            given = source.take(seconds)
        except GapError as error:
            if self.options.on_gap == "fail":
                raise
            self._gap = error
            raise TransientError(str(error)) from error
        if given:
            failpoint("cdc.after-take")
        elif looks:
            self._look(log)
        return self._taken(log, given)

    def _look(self, log: DatabaseLog[Any]) -> None:
        """See what is stored while nothing is taken: the server may forget what is."""
        cursor = self.stored_cursors().get(self.number)
        if cursor is not None:  # at the last row of a transaction a restart goes on within it
            log.keep(Cursor.decoded(cursor).position, ended=False)

    def _ask(self, source: SnapshotThenLog) -> None:
        """Follow what was asked for since the last time."""
        if self.log is None:
            return
        requests = Requests(self.log.receiver(self.number))
        waiting = requests.waiting()
        if not waiting:
            return
        for request in waiting:
            source.follow(request)
        # What is stored of them by now need not be asked for again.
        cursor = self.stored_cursors().get(self.number)
        if cursor is not None:
            requests.forget(Cursor.decoded(cursor).asked)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if self._log is not None:
            failpoint("cdc.before-confirm")
            self._log.keep(messages[-1].token)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log = self._all = None

    def cursor(self) -> str | None:
        if self._all is None or self._log is None:
            return None
        return Cursor(self._log.place(), self._all.cursor()).encoded()

    def complete(self) -> bool:
        # A place between transactions has no change of one before it.
        return self._log is None or not self._log.reached[-1]

    def caught_up(self) -> bool | None:
        if self._all is None or self._log is None or self._end is None:
            return False
        loading = self._all.loading and not self._all.paused
        return not loading and bool(self._log.reached >= self._end)

    def gauges(self) -> dict[str, float]:
        return {} if self._log is None else self._log.gauges()

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"server": self.options.place, "doing": ""}
        log, source = self._log, self._all
        if log is not None and source is not None:
            found |= {**log.facts(), "loading": source.loading}
            if source.progress is not None:
                found["snapshot"] = progress = self._progress(log, source, *source.progress)
                found["doing"] = _doing(**progress)
            if source.failed:
                found["failed"] = source.failed
        return found

    def _progress(
        self, log: DatabaseLog[Any], source: SnapshotThenLog, table: str, rows: int
    ) -> dict[str, Any]:
        """Return how far the reading of a table is, and about how many seconds it will take."""
        now = time.monotonic()
        if self._about is None or self._about[0] != table:
            self._about = (table, log.estimate(table), now, rows)
        _, total, began, before = self._about
        found: dict[str, Any] = {"table": table, "rows": rows, "about": total}
        if source.paused:
            found["paused"] = True
        elif total is not None and rows > before:
            left = max(0, total - rows) / (rows - before) * (now - began)
            found["seconds_left"] = round(left)
        return found

    # -- rows and messages --------------------------------------------------------------------

    def _taken(self, log: DatabaseLog[Any], given: Sequence[Given]) -> list[Message] | Rows:
        """Return what was given as columns for each table, and messages."""
        none = self._none
        messages: list[Message] = []
        batches: dict[str, _Batch] = {}
        raw = None if self.options.raw is False else _Raw(ordered=log.numbered)
        if self._lost is not None:
            messages.append(self._lost)
            self._lost = None
        for each in given:
            if raw is not None and not isinstance(each.content, Message):
                if each.snapshot:
                    raw.add_rows(self._tables[each.table], each.content, log.prefix(each.position))
                else:
                    raw.add_run(each.content)
                if each.table not in self._tables:
                    continue
            if isinstance(each.content, Message):
                messages.append(each.content._replace(token=each.position, extra=none))
                continue
            batch = batches.get(each.table)
            if batch is None:
                batch = batches[each.table] = _Batch()
            if each.snapshot:
                batch.add_rows(each.content, sequence(log.prefix(each.position), 0))
            else:
                batch.add_run(each.content)
        if not batches and not raw:
            return messages
        parts: list[Columns | list[Message]] = [messages] if messages else []
        for name, batch in batches.items():
            parts += batch.parts(self._tables[name], self._types[name], log.reached, none)
        if raw:
            parts.append(raw.part(self._types[ALL], self.options.place, log.reached))
        return Rows(parts)


def _doing(
    table: str,
    rows: int,
    about: int | None,
    *,
    paused: bool = False,
    seconds_left: int | None = None,
) -> str:
    """Return how far the reading of a table is, in words."""
    of = "" if about is None else f" of {about:,}"
    left = "" if seconds_left is None else f", {timedelta(seconds=seconds_left)} left"
    return f"reads {table}: {rows:,}{of} rows{', paused' if paused else left}"


class _Batch:
    """Changes of one table, of which columns are made."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []

    def add_run(self, run: Run) -> None:
        """Add changes of the log."""
        versions = [sequence(run.prefix, number) for number in run.numbers]
        self._last().add(run.kinds, versions, run.at, run.transaction, run.rows)

    def add_rows(self, rows: Sequence[Values] | PrintedRows, version: str) -> None:
        """Add rows of a snapshot."""
        count, now = len(rows), time.time_ns() // 1000
        kinds, versions = ["insert"] * count, [version] * count
        if isinstance(rows, PrintedRows):
            piece = _Piece(printed=rows)
            self._pieces.append(piece)
            piece.add(kinds, versions, now, None, ())
        else:
            self._last().add(kinds, versions, now, None, rows)

    def _last(self) -> _Piece:
        if not self._pieces or self._pieces[-1].printed is not None:
            self._pieces.append(_Piece())
        return self._pieces[-1]

    def parts(
        self, table: Table, kind: Any, reached: Position, none: tuple[Any, ...]
    ) -> Iterator[Columns | list[Message]]:
        """Yield the rows as columns, and messages for those that are refused.

        Args:
            kind: the type of the rows in the log.
            reached: the place to acknowledge them by.
            none: what a message of no table has as `extra`.
        """
        for piece in self._pieces:
            yield from piece.parts(table, kind, reached, none)


class _Piece:
    """Changes that are all rows, or columns of a snapshot's."""

    def __init__(self, printed: PrintedRows | None = None) -> None:
        self.printed = printed
        self._kinds: list[str] = []
        self._versions: list[str] = []
        self._at: list[int] = []
        self._transactions: list[str | None] = []
        self._rows: list[Values] = []

    def add(
        self,
        kinds: Sequence[str],
        versions: Sequence[str],
        at: int,
        transaction: str | None,
        rows: Sequence[Values],
    ) -> None:
        """Add changes of one time."""
        self._kinds += kinds
        self._versions += versions
        self._at += [at] * len(kinds)
        self._transactions += [transaction] * len(kinds)
        self._rows += rows

    def _row(self, number: int) -> Values:
        return self._rows[number] if self.printed is None else self.printed.row(number)

    def parts(
        self, table: Table, kind: Any, reached: Position, none: tuple[Any, ...]
    ) -> Iterator[Columns | list[Message]]:
        """Yield them; see `_Batch.parts`."""
        if self.printed is None:
            columns, refused = table.read(self._rows)
        else:
            columns, refused = table.read_columns(self.printed.columns)
        columns[CHANGE_TYPE] = pa.array(self._kinds, pa.string())
        columns[COMMIT_VERSION] = pa.array(self._versions, pa.string())
        columns[COMMIT_TIMESTAMP] = pa.array(self._at, pa.timestamp("us", "UTC"))
        if table.transaction is not None:
            columns[table.transaction] = pa.array(self._transactions, pa.string())
        rows, at = columns_of(kind, columns), self._at
        if refused:
            kept = [number not in refused for number in range(len(at))]
            rows = rows.filter(pa.array(kept))
            at = [each for each, keep in zip(at, kept, strict=True) if keep]
            yield [
                Message(
                    table.shown(self._row(number)).encode(),
                    timestamp=self._at[number],
                    origin=table.origin,
                    token=reached,
                    refused=why,
                    extra=none,
                )
                for number, why in sorted(refused.items())
            ]
        if len(rows):
            yield Columns(table.name, rows, at, table.origin, token=reached)


class _Raw:
    """Changes of all tables in their order, of which columns are made.

    Args:
        ordered: whether sequences tell the order over all tables.
    """

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self._columns: dict[str, list[Any]] = {
            name: [] for name in ("table", "change", "key", "row", "transaction", "sequence")
        }
        self._at: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._at)

    def add_run(self, run: Run) -> None:
        """Add changes of the log."""
        versions = [sequence(run.prefix, number) for number in run.numbers]
        self._add(run.table, run.kinds, run.rows, versions)
        self._columns["transaction"] += [run.transaction] * len(run.rows)
        self._at += [run.at] * len(run.rows)

    def add_rows(self, table: Table, given: Sequence[Values] | PrintedRows, prefix: str) -> None:
        """Add rows of a snapshot."""
        rows = given.rows() if isinstance(given, PrintedRows) else given
        count = len(rows)
        self._add(table, ["insert"] * count, rows, [sequence(prefix, 0)] * count)
        self._columns["transaction"] += [None] * count
        self._at += [time.time_ns() // 1000] * count

    def _add(
        self, table: Table, kinds: Sequence[str], rows: Sequence[Values], versions: Sequence[str]
    ) -> None:
        columns = self._columns
        columns["table"] += [table.origin] * len(rows)
        columns["change"] += kinds
        columns["key"] += map(table.shown_key, rows)
        columns["row"] += map(table.shown, rows)
        columns["sequence"] += versions

    def part(self, kind: Any, origin: str, reached: Position) -> Columns:
        """Return them as columns."""
        columns: dict[str, Any] = {
            name: pa.array(values, pa.string()) for name, values in self._columns.items()
        }
        columns["committed_at"] = pa.array(self._at, pa.timestamp("us", "UTC"))
        rows, at = columns_of(kind, columns), self._at
        if self._ordered:
            versions = self._columns["sequence"]
            order = sorted(range(len(at)), key=versions.__getitem__)
            rows, at = rows.take(pa.array(order)), [at[number] for number in order]
        return Columns(ALL, rows, at, origin, token=reached)
