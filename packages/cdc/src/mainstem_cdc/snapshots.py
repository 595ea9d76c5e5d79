"""Tables and the log of their changes as one: a snapshot, then every change, with nothing between missed.

A snapshot is read in chunks, by key, while the log goes on. A chunk's rows have seen what was taken from
the log before it was read, and nothing behind a mark that is made after; nobody knows which changes
between they have seen. But of a key that no such change is of, the row is what the table has at the mark;
and of the others the log tells. So the chunk waits until the log has come to the mark, and loses the rows
of the keys that were changed meanwhile.

Nothing is locked, no transaction lasts longer than the reading of a chunk, and a crash loses at most the
chunk in hand: it is read again, up to a later mark.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mainstem import PermanentError

#: Where something is in the log: JSON that Python compares in the log's order, of one type. Numbers, text
#: of a fixed width, lists of these.
Position = Any


#: How long changes are waited for while a table is being read, in seconds.
_WAIT = 0.05


class Chunk(NamedTuple):
    """Rows of a table as they are, by their keys, and where the next ones begin.

    `last` is JSON, what `TablesAndLog.chunk` is given for the next chunk; None at the table's end. Keys
    are whatever can be compared with those of changes; the rows are the author's own. What is no dict
    has `pop`, `len`, and `values`, whose result has a length and is given on as it is.
    """

    rows: Any
    last: Any


class Change(NamedTuple):
    """A change in the log, or several of one table that no other table's mark can come between.

    `keys` are those of the rows that it changes; they are looked at only while the table is being read.
    `position` is that of the last; `content` is the author's own.
    """

    position: Position
    table: str
    keys: Iterable[Any]
    content: Any


class Given(NamedTuple):
    """What is given on: a change with its content, or rows of a snapshot, as they were at a position of
    the log, as a list, or what `values` of a chunk's rows returned.

    In this order, and compared by their positions too, later ones of a key supersede the earlier ones.
    Rows have the position of their chunk's mark, at which no change of their keys is.
    """

    position: Position
    table: str
    content: Any
    snapshot: bool


class Changes(NamedTuple):
    """Changes in the order of the log, and up to where there are no others."""

    changes: Sequence[Change]
    reached: Position


class TablesAndLog(ABC):
    """What an author writes of tables whose changes are in a log."""

    @abstractmethod
    def mark(self) -> Position:
        """Return where the log ends now: what a read of a table before has seen is not behind it."""

    @abstractmethod
    def changes(self, after: Position, seconds: float) -> Changes:
        """Return the next changes after a position, waiting for the first for so long at most."""

    @abstractmethod
    def chunk(self, table: str, after: Any, rows: int, where: str | None = None) -> Chunk | None:
        """Return the next rows of a table by key, as they are now.

        They must have seen every change that `changes` has returned; None if they have not yet: it is
        called again after further changes.

        Args:
            table: its name.
            after: what the chunk before said of its last row; None for the first.
            rows: how many at most.
            where: a condition of the database's own that rows must meet.

        Raises:
            PermanentError: it can't be read; with a condition, that may be wrong.
        """


@dataclass
class _Place:
    """How far all is: what is stored as the cursor."""

    log: Position
    #: The tables whose snapshot is not whole, and the key up to which the first of them is read.
    tables: list[str]
    after: Any = None
    #: How many rows of that one were read; of tables that are read in part, the condition.
    rows: int = 0
    wheres: dict[str, str] = field(default_factory=dict)
    #: The conditions of parts of tables that are read once what is read of them now is whole.
    later: dict[str, list[str]] = field(default_factory=dict)
    paused: bool = False
    #: The last request that was followed.
    asked: int = 0


@dataclass
class _Waiting:
    """A chunk whose rows wait for the log to come to their mark."""

    table: str
    mark: Position
    rows: Any
    last: Any
    count: int


class Request(NamedTuple):
    """What somebody asks of snapshots while they are read.

    Attributes:
        number: higher than those of requests before it.
        kind: `snapshot`: read the tables again; `stop` reading them; `pause` and `resume` all.
        tables: which; none stands for all, with `stop`.
        where: which rows, with `snapshot`.
    """

    number: int
    kind: Literal["snapshot", "stop", "pause", "resume"]
    tables: list[str]
    where: str | None = None


def behind_gap(cursor: str, begin: Position) -> str:
    """Return the cursor that goes on behind changes that are lost: all tables are read again.

    Args:
        begin: the position behind which the log is to be had.
    """
    anew = {
        "log": begin,
        "tables": [],
        "after": None,
        "rows": 0,
        "wheres": {},
        "later": {},
        "whole": [],
    }
    return json.dumps(json.loads(cursor) | anew)


class SnapshotThenLog:
    """Gives the rows of tables, and every change since the first of them was read.

    A receiver takes from it, and gives `cursor()` as its own: what was given and the cursor are stored
    together.

    Args:
        source: the tables and their log. The log keeps what comes after the cursor.
        tables: all that there are, in their order; those of a cursor that are left out here are not read
            any further, and those that it has not heard of are read from their beginning.
        cursor: what `cursor` gave when something was stored last; None for a beginning.
        rows: how many rows a chunk has at most.
        begin: the position behind which the log is read at a beginning; its end when left out.
        initial: whether tables are read that nobody asked for.
    """

    def __init__(
        self,
        source: TablesAndLog,
        tables: Sequence[str],
        cursor: str | None,
        rows: int = 1000,
        begin: Position = None,
        *,
        initial: bool = True,
    ) -> None:
        self._source = source
        self._known = tuple(tables)
        self._rows = rows
        self._chunk: _Waiting | None = None
        #: Why a table that was asked for was not read; empty if nothing is wrong.
        self.failed = ""
        if cursor is None:
            self._whole: list[str] = []
            begin = source.mark() if begin is None else begin
            self._place = _Place(begin, list(tables) if initial else [])
            return
        kept = json.loads(cursor)
        self._whole = [table for table in kept["whole"] if table in tables]
        left = [table for table in kept["tables"] if table in tables]
        new = [table for table in tables if table not in self._whole and table not in left]
        new = new if initial else []
        begun = left[:1] == kept["tables"][:1]
        self._place = _Place(
            kept["log"],
            [*left, *new],
            kept["after"] if begun else None,
            kept["rows"] if begun else 0,
            {table: where for table, where in kept["wheres"].items() if table in left},
            {table: wheres for table, wheres in kept.get("later", {}).items() if table in left},
            kept["paused"],
            kept["asked"],
        )

    def cursor(self) -> str:
        """Return where all goes on after what `take` has returned so far."""
        return json.dumps({**vars(self._place), "whole": self._whole})

    @property
    def loading(self) -> bool:
        """Whether rows of snapshots are still to come."""
        return bool(self._place.tables)

    @property
    def paused(self) -> bool:
        """Whether tables are not read on until somebody says so."""
        return self._place.paused

    @property
    def progress(self) -> tuple[str, int] | None:
        """The table that is being read, and how many of its rows were; None if there is none."""
        place = self._place
        return (place.tables[0], place.rows) if place.tables else None

    @property
    def asked(self) -> int:
        """The last request that was followed."""
        return self._place.asked

    def follow(self, request: Request) -> None:
        """Do what somebody asks for, if its number is a new one."""
        if request.number <= self._place.asked:
            return
        self._place.asked = request.number
        tables = [table for table in request.tables if table in self._known]
        if request.kind == "snapshot":
            for table in tables:
                self.reload(table, request.where)
        elif request.kind == "stop":
            for table in tables if request.tables else list(self._place.tables):
                self._place.later.pop(table, None)
                self._leave(table)
        else:
            self._place.paused = request.kind == "pause"

    def reload(self, table: str, where: str | None = None) -> None:
        """Let the snapshot of a table be read again, after those that are not whole.

        A part is read after what is read of the table already, of which nothing is left out for it.

        Args:
            where: which rows, as a condition of the database's own; all when left out.
        """
        place = self._place
        if where is not None and table in place.tables:
            place.later.setdefault(table, []).append(where)
            return
        place.later.pop(table, None)  # all of it is read
        if place.tables[:1] == [table]:
            self._chunk, place.after, place.rows = None, None, 0
        else:
            self._whole = [each for each in self._whole if each != table]
            place.tables = [*(each for each in place.tables if each != table), table]
        place.wheres.pop(table, None)
        if where is not None:
            place.wheres[table] = where

    def _leave(self, table: str) -> None:
        """Do not read a table on, as if it were whole; a part of it that is to be read then is next."""
        place = self._place
        if table not in place.tables:
            return
        if place.tables[0] == table:
            self._chunk, place.after, place.rows = None, None, 0
        place.tables.remove(table)
        place.wheres.pop(table, None)
        self._whole.append(table)
        if later := place.later.pop(table, []):
            self.reload(table, later[0])
            place.later |= {table: later[1:]} if later[1:] else {}

    def take(self, seconds: float) -> list[Given]:
        """Return what comes next, waiting for the first of it for so long at most."""
        if self._chunk is None and self._place.tables and not self._place.paused:
            self._open()
        wait = min(seconds, _WAIT) if self.loading and not self._place.paused else seconds
        if self._chunk is not None and self._chunk.mark <= self._place.log:
            wait = 0.0
        found = self._source.changes(self._place.log, wait)
        given = list(self._passed(found.changes))
        self._place.log = found.reached
        if self._chunk is not None and self._chunk.mark <= found.reached:
            given += self._closed(self._chunk)
        return given

    def _open(self) -> None:
        """Read a chunk, and mark how far the log may have been meanwhile."""
        place = self._place
        table = place.tables[0]
        where = place.wheres.get(table)
        try:
            found = self._source.chunk(table, place.after, self._rows, where)
        except PermanentError as error:
            if where is None:
                raise
            # Whoever asked for it has made a mistake, and all else goes on.
            self.failed = f"{table}: {error}"
            self._leave(table)
            return
        if found is not None:
            self._chunk = _Waiting(table, self._source.mark(), *found, len(found.rows))

    def _passed(self, changes: Sequence[Change]) -> Iterator[Given]:
        """Give changes on; those that a chunk may have seen supersede its rows.

        The chunk's own rows come when its mark is passed, before the first change behind that.
        """
        for change in changes:
            chunk = self._chunk
            if chunk is not None and chunk.mark < change.position:
                yield from self._closed(chunk)
            elif chunk is not None and chunk.table == change.table:
                for key in change.keys:
                    chunk.rows.pop(key, None)
            yield Given(change.position, change.table, change.content, snapshot=False)

    def _closed(self, chunk: _Waiting) -> list[Given]:
        """Return what is left of a chunk, and note that it is done."""
        self._chunk, place = None, self._place
        if chunk.last is None:
            self._leave(chunk.table)
        else:
            place.after = chunk.last
            place.rows += chunk.count
        rows = chunk.rows.values()
        if isinstance(chunk.rows, dict):
            rows = list(rows)
        return [Given(chunk.mark, chunk.table, rows, snapshot=True)] if len(rows) else []
