"""Tables and their log at a server: what every source does while changes come."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

from mainstem import PermanentError

from mainstem_cdc.columns import PrintedRows
from mainstem_cdc.options import CaptureOptions
from mainstem_cdc.snapshots import Change, Changes, Chunk, Position, TablesAndLog
from mainstem_cdc.tables import Run, Table, Values
from mainstem_cdc.values import UNCHANGED

T = TypeVar("T", bound=Table)

#: How long one call goes on while there are changes, waits for the rest of a transaction, and lets the
#: connection be, in seconds.
_LONGEST, _REST, _TENDING = 1.0, 0.05, 1.0
#: How many rows of a table are read first, and about how many bytes at once after that.
_FIRST_ROWS, _CHUNK_BYTES = 1_000, 16 * 2**20


class DatabaseLog(TablesAndLog, Generic[T]):
    """Tables and their log. What `changes` gives has as content a `Run`, or a `Message`.

    An author writes how events come and what they say. Positions are lists; the last number is how many
    changes of a transaction are before it, 0 between transactions.

    Args:
        tables: by their names in the document.
        begin: the position behind which the log is read.
        awaited: where it ends now.

    Attributes:
        reached: up to where `changes` has returned all.
        awaited: where the log was at some moment whose changes are waited for.
        found: the changes of the call in hand, to which `read` adds.
        count: how many they are.
        ended: whether a transaction has ended in this call all of whose changes were returned before.
        truncated: how many tables were emptied, which was passed over.
    """

    #: Whether changes of a transaction are numbered over all tables, and not by each.
    numbered = True
    #: How many changes one call gives at most, and about how many bytes; and how many of a transaction
    #: that is to be whole.
    most, most_bytes, most_together = 10_000, 4 * 2**20, 500_000

    def __init__(
        self, options: CaptureOptions, tables: Mapping[str, T], begin: Position, awaited: Position
    ) -> None:
        self.options = options
        self.tables = tables
        self.reached = begin
        self.awaited = awaited
        self.found: list[Run | Change] = []
        self.count = 0
        self.ended = False
        self.truncated = 0
        #: Of the transaction in hand, by table.
        self._runs: dict[str, Run] = {}
        #: How many rows of a table are read at once, by what rows were there.
        self._sizes: dict[str, int] = {}
        self._moved = time.monotonic()

    # -- what an author writes --------------------------------------------------------------------

    @property
    @abstractmethod
    def at(self) -> Position:
        """Up to where all has come."""

    @property
    @abstractmethod
    def within(self) -> bool:
        """Whether that is within a transaction."""

    @property
    def undecided(self) -> bool:
        """Whether nobody knows before its end whether the transaction stays."""
        return False

    @abstractmethod
    def next(self) -> bytes | None:
        """Return the next event as it has come; None if none has yet."""

    @abstractmethod
    def read(self, data: bytes) -> None:
        """Take what an event says: add to `found` and `count`, move `at`."""

    @abstractmethod
    def tend(self) -> None:
        """Keep the connection; called every second at least.

        Raises:
            TransientError: the server has said nothing for long.
        """

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Wait until an event has come, for so long at most."""

    def quiet(self) -> None:
        """Note that there is no event that has not been read."""

    def hurried(self) -> bool:
        """Whether the server wants to know at once how far this is."""
        return False

    def moved(self) -> None:
        """Note that `reached` has become `at`."""

    @abstractmethod
    def prefix(self, position: Position) -> str:
        """Return what the sequence of a change begins with: text that orders as transactions do."""

    @abstractmethod
    def place(self) -> Any:
        """Return what a new connection goes on by, as JSON has it."""

    def keep(self, position: Position, *, ended: bool = True) -> None:
        """Note that all up to a position is stored.

        Args:
            ended: whether the end of its transaction is stored with it, if that was read.
        """

    @abstractmethod
    def idle(self, seconds: float) -> None:
        """Wait without reading anything."""

    @abstractmethod
    def estimate(self, table: str) -> int | None:
        """Return about how many rows a table has; None if nobody knows."""

    def now(self, table: T, key: Sequence[Any]) -> Values | None:
        """Return a row as it is by now; None if it is gone. For `filled`."""
        raise NotImplementedError

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what is worth showing, such as the place in the log."""

    @abstractmethod
    def gauges(self) -> dict[str, float]:
        """Return numbers worth watching, by names with their unit."""

    def close(self) -> None:
        """End the connections."""

    # -- changes ----------------------------------------------------------------------------------

    def changes(self, after: Position, seconds: float) -> Changes:
        now = time.monotonic
        began = tended = now()
        self.found, self.count, self.ended, self._runs = [], 0, False, {}
        size = 0
        while self._holds or (self.count < self.most and size < self.most_bytes):
            data = self.next()
            at = now()
            if data is not None:
                size += len(data)
                self.read(data)
                if at - tended >= _TENDING:
                    self.tend()
                    tended = at
                if at - began > _LONGEST and not self._holds:
                    break
                continue
            self.quiet()
            self.tend()
            if self._holds or (self.found and self.within and at - began < _LONGEST):
                self.wait(_REST)  # the rest of a transaction follows at once
                continue
            left = seconds - (at - began)
            if self.found or left <= 0 or (self.awaits and self.at >= self.awaited):
                break
            self.wait(min(left, _TENDING))
        hurried = self.hurried()
        self.tend()
        # Where nothing comes of these tables it goes on seldom: each time is stored.
        due = now() - self._moved >= self.options.heartbeat.total_seconds()
        if self.found or self.awaits or self.ended or hurried or due:
            self.reached, self._moved = max(after, self.at), now()
            self.moved()
        made = [each if isinstance(each, Change) else each.change() for each in self.found]
        return Changes(made, self.reached)

    @property
    def awaits(self) -> bool:
        """Whether changes are waited for that were in the log at some moment."""
        return bool(self.reached < self.awaited)

    @property
    def _holds(self) -> bool:
        """Whether a transaction is gone on with though there is enough."""
        if self.undecided:
            return True
        whole = self.options.together is not None and self.count < self.most_together
        return whole and self.within and self.at[-1] > 0

    def run(self, table: T, place: list[Any], at: int, transaction: str | None) -> Run:
        """Return the changes of a table in the transaction in hand.

        Args:
            place: that of the transaction.
            at: when that was, in microseconds since 1970.
            transaction: by what the database tells it from others.
        """
        found = self._runs.get(table.name)
        if found is None or found.table is not table:  # its columns may be others by now
            found = self._runs[table.name] = Run(table, place, self.prefix(place), at, transaction)
            self.found.append(found)
        return found

    def unnamed(self, namespace: str, table: str) -> bool:
        """Whether changes of a table are in `all` that the document does not name."""
        place = f"{namespace}.{table}"
        return any(fnmatchcase(place, pattern) for pattern in self.options.patterns)

    def end_runs(self) -> None:
        """Note that the transaction in hand has ended."""
        self._runs = {}

    def filled(self, table: T, new: Values, old: Values | None) -> Values:
        """Return a row with what the log left out, as it did not change.

        Args:
            old: the row before, as far as the log has it; None if it has not.
        """
        if old is not None:
            new = [o if n is UNCHANGED else n for n, o in zip(new, old, strict=True)]
        if UNCHANGED not in new or self.options.unchanged == "refuse" or not table.named:
            return new
        there = self.now(table, table.key_of(new))
        if there is None:  # it was deleted since, which comes next
            there = [None] * len(new)
        return [t if n is UNCHANGED else n for n, t in zip(new, there, strict=True)]

    def emptied(self, names: Sequence[str]) -> None:
        """Do what the document says of tables all of whose rows were removed at once.

        Raises:
            PermanentError: that ends the run.
        """
        if names and not self.options.passes_truncate:
            raise PermanentError(
                f"TRUNCATE of {', '.join(names)}: a changelog has no such change. Start the checkpoint "
                "over, or, where rows that are gone may stay downstream, `on_truncate: ignore`"
            )
        self.truncated += len(names)

    # -- tables -----------------------------------------------------------------------------------

    def sized(self, table: str, rows: int, read: Callable[[int], Chunk | None]) -> Chunk | None:
        """Return a chunk of so many rows that it has about the same bytes each time.

        Args:
            rows: how many at most.
            read: returns a chunk of so many rows.
        """
        found = read(max(1, min(rows, self._sizes.get(table, _FIRST_ROWS))))
        if found is None:
            time.sleep(0.001)  # it is asked for again at once
        elif found.rows:
            if isinstance(found.rows, PrintedRows):
                size = found.rows.nbytes
            else:
                values = (value for row in found.rows.values() for value in row)
                size = sum(len(value) for value in values if isinstance(value, bytes))
            self._sizes[table] = int(_CHUNK_BYTES / (size / len(found.rows) + 1))
        return found
