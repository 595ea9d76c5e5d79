"""Rows of a table of one bucket that wait for a time, apart from their keys: entries by that time.

On its key's page a row that waits would be read and written again whenever a neighbour comes or goes.
Here rows stand by stretches of time, each an eighth as long as it was away when its rows came. A stretch
whose time has come is read, and what is not due yet is put into shorter ones: so a row is written a few
times at most, however many wait and however long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from mainstem_keyed_state.directory import NEVER, Waiting
from mainstem_keyed_state.entries import Entries, Entry
from mainstem_keyed_state.loaded_pages import Declared
from mainstem_keyed_state.page_codec import uncut

#: A stretch of time is 2**-3 as long as it is away, and 2**20 microseconds at least.
_SHARE, _SHORTEST = 3, 20

Times = npt.NDArray[np.int64]


class Queue:
    """The rows of one table that wait in a bucket.

    Args:
        empty: a frame of the table.
        due: the column that says when a row is due.
        limit: the bytes above which what is written goes into another entry.
    """

    def __init__(
        self, entries: Entries, table: str, empty: pl.DataFrame, due: str, limit: int
    ) -> None:
        self._entries = entries
        self._table = table
        self._empty = empty
        self._due = due
        self._limit = limit
        self._waiting = entries.directory.queues.setdefault(table, [])
        self._new: list[pl.DataFrame] = []

    def take(self, watermark: int | None) -> pl.DataFrame:
        """Return the rows that are due and let them go."""
        ripe = [] if watermark is None else [w for w in self._waiting if w.due <= watermark]
        rows = self._rows(ripe)
        for each in ripe:
            self._drop(each)
        return self.sift(rows, watermark)

    def sift(self, rows: pl.DataFrame, watermark: int | None) -> pl.DataFrame:
        """Return the rows that are due, and let the others wait."""
        if watermark is None:
            due = pl.lit(value=False)
        else:
            due = (pl.col(self._due).to_physical() <= watermark).fill_null(value=False)
        self.add(rows.filter(~due))
        return rows.filter(due)

    def add(self, rows: pl.DataFrame) -> None:
        """Let rows wait."""
        if rows.height:
            self._new.append(rows)

    def keep(self, watermark: int | None) -> None:
        """Write the rows that were added."""
        if not self._new:
            return
        rows = pl.concat(self._new)
        self._new = []
        due = rows[self._due].to_physical().fill_null(NEVER).to_numpy()
        order = np.argsort(due, kind="stable")
        rows, due = rows[order], due[order]
        now = int(due[0]) if watermark is None else watermark
        start, width = _stretches(due, now)
        ends = np.flatnonzero((np.diff(start) != 0) | (np.diff(width) != 0)) + 1
        bounds = [0, *ends.tolist(), len(due)]
        for first, end in pairwise(bounds):
            some = rows.slice(first, end - first)
            self._write(some, int(due[first]), int(start[first]), int(width[first]))

    def _write(self, rows: pl.DataFrame, due: int, start: int, width: int) -> None:
        """Write the rows of one stretch of time, with those of a small entry that is there."""
        there = (w for w in self._waiting if (w.start, w.width) == (start, width))
        small = next((w for w in there if w.size < self._limit // 4), None)
        if small is not None:
            rows = pl.concat([self._rows([small]), rows])
            due = min(due, small.due)
            self._drop(small)
        for part in self._parts(rows):
            first = part[self._due].to_physical().fill_null(NEVER).min()
            assert isinstance(first, int)  # noqa: S101
            data = uncut(part).encoded()
            number = self._entries.number()
            self._entries.put((self._table, number), data)
            self._waiting.append(Waiting(number, part.height, len(data), first, start, width))

    def _rows(self, waiting: Sequence[Waiting]) -> pl.DataFrame:
        """Return the rows of entries, brought to the present version."""
        present = self._entries.present()
        new: list[Entry] = []
        parts = []
        for entry in self._entries.get([(self._table, each.number) for each in waiting]):
            if entry is None:
                continue
            if (entry[0], self._table) in present:
                new.append(entry)
                continue
            given = {self._table: self._entries.decode([entry])}
            given = self._entries.migrated(given, self._entries.version(entry))
            parts.append(self._entries.widened(given[self._table], self._table))
        if new:
            parts.append(self._entries.decode(new))
        rows = pl.concat([self._empty, *parts])
        if rows.height != sum(each.rows for each in waiting):
            raise ValueError(f"{self._table!r}: entries hold other rows than the directory says")
        return rows

    def _parts(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        each = max(1, rows.height * self._limit // max(int(rows.estimated_size()), 1))
        return iter([rows]) if each >= rows.height else rows.iter_slices(each)

    def _drop(self, entry: Waiting) -> None:
        self._waiting.remove(entry)
        self._entries.remove((self._table, entry.number))


def queues_of(entries: Entries, declared: Declared, limit: int) -> dict[str, Queue]:
    """Return the tables of a bucket whose rows wait apart from their keys.

    Raises:
        ValueError: rows of a table wait that is not declared as one of these.
    """
    queued = declared.queued
    waiting = [table for table, some in entries.directory.queues.items() if some]
    if gone := [table for table in waiting if table not in queued]:
        raise ValueError(f"rows of {gone} wait, which this version does not declare as queued")
    return {t: Queue(entries, t, declared.all[t], due, limit) for t, due in queued.items()}


def _stretches(due: Times, now: int) -> tuple[Times, Times]:
    """Return where the stretch of time of each row begins, and how long it is."""
    away = np.maximum(due - min(now, int(due[0])), 1)
    level = np.log2(away).astype(np.int64) - _SHARE
    width = np.int64(1) << np.maximum(level, _SHORTEST)
    return due // width * width, width
