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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Where something is in the log: JSON that Python compares in the log's order, of one type. Numbers, text
#: of a fixed width, lists of these.
Position = Any


class Row(NamedTuple):
    """A row of a table as it is; `key` is JSON, `content` the author's own."""

    key: Any
    content: Any


class Change(NamedTuple):
    """A change in the log; `content` is the author's own."""

    position: Position
    table: str
    key: Any
    content: Any


class Given(NamedTuple):
    """What is given on: a change, or a row of a snapshot as it was at a position of the log.

    In this order, and compared by their positions too, later ones of a key supersede the earlier ones. A
    row has the position of its chunk's mark, at which no change of its key is.
    """

    position: Position
    table: str
    key: Any
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
    def chunk(self, table: str, after: Any, rows: int) -> Sequence[Row]:
        """Return the next rows of a table by key, as they are now; none at its end.

        They must have seen every change that `changes` has returned.

        Args:
            table: its name.
            after: the key of the last row of the chunk before; None for the first.
            rows: how many at most.
        """


@dataclass
class _Place:
    """How far all is: what is stored as the cursor."""

    log: Position
    #: The tables whose snapshot is not whole, and the key up to which the first of them is read.
    tables: list[str]
    after: Any = None


@dataclass
class _Chunk:
    """Rows that wait for the log to come to their mark."""

    table: str
    mark: Position
    #: By their keys, as JSON.
    rows: dict[str, Row] = field(default_factory=dict)
    last: Any = None


class SnapshotThenLog:
    """Gives the rows of tables, and every change since the first of them was read.

    A receiver takes from it, and gives `cursor()` as its own: what was given and the cursor are stored
    together.

    Args:
        source: the tables and their log. The log keeps what comes after the cursor.
        tables: whose snapshots are wanted, in their order; those of a cursor that are left out here are
            not read any further, and those that it has not heard of are read from their beginning.
        cursor: what `cursor` gave when something was stored last; None for a beginning.
        rows: how many rows a chunk has at most.
        begin: the position behind which the log is read at a beginning; its end when left out.
    """

    def __init__(
        self,
        source: TablesAndLog,
        tables: Sequence[str],
        cursor: str | None,
        rows: int = 1000,
        begin: Position = None,
    ) -> None:
        self._source = source
        self._rows = rows
        self._chunk: _Chunk | None = None
        if cursor is None:
            self._whole: list[str] = []
            self._place = _Place(source.mark() if begin is None else begin, list(tables))
            return
        kept = json.loads(cursor)
        self._whole = [table for table in kept["whole"] if table in tables]
        left = [table for table in kept["tables"] if table in tables]
        new = [table for table in tables if table not in self._whole and table not in left]
        begun = left[:1] == kept["tables"][:1]
        self._place = _Place(kept["log"], [*left, *new], kept["after"] if begun else None)

    def cursor(self) -> str:
        """Return where all goes on after what `take` has returned so far."""
        place = self._place
        kept = {
            "log": place.log,
            "tables": place.tables,
            "after": place.after,
            "whole": self._whole,
        }
        return json.dumps(kept)

    @property
    def loading(self) -> bool:
        """Whether rows of snapshots are still to come."""
        return bool(self._place.tables)

    def reload(self, table: str) -> None:
        """Let the snapshot of a table be read again, after those that are not whole."""
        place = self._place
        if place.tables[:1] == [table]:
            self._chunk, place.after = None, None
            return
        self._whole = [each for each in self._whole if each != table]
        place.tables = [*(each for each in place.tables if each != table), table]

    def take(self, seconds: float) -> list[Given]:
        """Return what comes next, waiting for the first of it for so long at most."""
        if self._chunk is None and self._place.tables:
            self._open()
        found = self._source.changes(self._place.log, 0.0 if self._chunk else seconds)
        given = list(self._passed(found.changes))
        self._place.log = found.reached
        if self._chunk is not None and self._chunk.mark <= found.reached:
            given += self._closed(self._chunk)
        return given

    def _open(self) -> None:
        """Read a chunk, and mark how far the log may have been meanwhile."""
        table = self._place.tables[0]
        rows = self._source.chunk(table, self._place.after, self._rows)
        mark = self._source.mark()
        last = rows[-1].key if rows else None
        self._chunk = _Chunk(table, mark, {_name(row.key): row for row in rows}, last)

    def _passed(self, changes: Sequence[Change]) -> Iterator[Given]:
        """Give changes on; those that a chunk may have seen supersede its rows.

        The chunk's own rows come when its mark is passed, before the first change behind that.
        """
        for change in changes:
            chunk = self._chunk
            if chunk is not None and chunk.mark < change.position:
                yield from self._closed(chunk)
            elif chunk is not None and chunk.table == change.table:
                chunk.rows.pop(_name(change.key), None)
            yield Given(*change, snapshot=False)

    def _closed(self, chunk: _Chunk) -> list[Given]:
        """Return what is left of a chunk, and note that it is done."""
        self._chunk, place = None, self._place
        if chunk.last is None:
            self._whole.append(place.tables.pop(0))
            place.after = None
        else:
            place.after = chunk.last
        rows = chunk.rows.values()
        return [Given(chunk.mark, chunk.table, row.key, row.content, True) for row in rows]


def _name(key: Any) -> str:
    return json.dumps(key)
