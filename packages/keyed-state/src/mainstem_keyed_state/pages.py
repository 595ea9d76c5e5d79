"""The state of one bucket, as pages: each holds the rows of a range of hashes, of every table.

A page that grows too large is cut in two or more at hashes that share its bytes out evenly; one that
becomes empty goes, its range falls to a neighbour, and small neighbours become one. So pages follow the
data, however skewed: only a page whose rows all have one hash stays as large as it is. The directory says
which pages there are, how many rows each has and when the earliest of them is due; it is one more entry
of the bucket's state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from mainstem_keyed_state.directory import NEVER, Page, Stored
from mainstem_keyed_state.entries import Entries, Entry, Name
from mainstem_keyed_state.hashes import Hashes, hashes_of
from mainstem_keyed_state.loaded_pages import Declared, Loaded, State
from mainstem_keyed_state.logic import KEY
from mainstem_keyed_state.page_codec import (
    Cut,
    Stretch,
    cut_at,
    cut_by,
    cut_of,
    joined,
    same,
)

#: The rows that a page has now by table, and the tables that have changed.
Rewrite = tuple[Mapping[str, Stretch], Sequence[str]]

#: A page above this many bytes is cut.
PAGE_BYTES = 64 * 1024
#: Rows of other keys are left out of a step if there are so many times more of them than of touched ones.
_OTHERS = 8


class Pages:
    """The state of one bucket.

    Args:
        limit: the bytes above which a page is cut.
    """

    def __init__(self, entries: Entries, declared: Declared, limit: int = PAGE_BYTES) -> None:
        self._entries = entries
        self._declared = declared
        self._tables = declared.due
        self._empty = declared.empty
        self._limit = limit
        self.directory = entries.directory

    # -- which pages --------------------------------------------------------------------------

    def lows(self) -> Hashes:
        """Return the lowest hash of each page."""
        return np.array([page.low for page in self.directory.pages], np.uint32)

    def due(self, watermark: int | None) -> npt.NDArray[np.int64]:
        """Return the places of the pages with a row that is due."""
        if watermark is None:
            return np.empty(0, np.int64)
        due = np.array([page.due for page in self.directory.pages], np.int64)
        return np.flatnonzero(due <= watermark)

    def next_due(self, after: int) -> int | None:
        """Return the earliest due time, in microseconds, put off until after a watermark."""
        due = self.directory.due
        return None if due == NEVER else max(due, after + 1)

    # -- loading ------------------------------------------------------------------------------

    def load(self, places: npt.NDArray[np.int64], hashes: Hashes, watermark: int | None) -> Loaded:
        """Return the rows of some pages, or at least those of keys that are touched.

        Args:
            places: the pages' places in the directory, in order.
            hashes: of the keys that have rows in the batch.
            watermark: says which rows are due.
        """
        pages = [self.directory.pages[place] for place in places]
        names = [(table, page.number) for page in pages for table in page.tables]
        entries = dict(zip(names, self._entries.get(names), strict=True))
        present = self._entries.present()
        if any(entry and (entry[0], name[0]) not in present for name, entry in entries.items()):
            return self._load_old(places, pages, entries)
        given = {}
        for table, empty in self._empty.items():
            there = [e for page in pages if (e := entries.get((table, page.number))) is not None]
            rows = self._entries.decode(there) if there else empty
            heights = [page.tables[table].rows if table in page.tables else 0 for page in pages]
            if rows.height != sum(heights):
                raise ValueError(f"table {table!r}: pages hold other rows than the directory says")
            given[table] = cut_of(rows, np.array(heights, np.int64))
        return self._narrowed(Loaded(places, given), hashes, watermark)

    def _narrowed(self, loaded: Loaded, hashes: Hashes, watermark: int | None) -> Loaded:
        """Return what was loaded without the rows of keys that are not touched, if they are many."""
        state = loaded.state
        if sum(rows.height for rows in state.values()) <= _OTHERS * len(hashes):
            return loaded
        wanted = [hashes]
        for table, due in self._tables.items():
            if due is not None and watermark is not None:
                ripe = state[table].filter(pl.col(due).to_physical() <= watermark)
                wanted.append(hashes_of(ripe[KEY]))
        touched = np.unique(np.concatenate(wanted))
        given, others = {}, {}
        for table, rows in state.items():
            found = hashes_of(rows[KEY])
            place = np.searchsorted(touched, found)
            place[place == len(touched)] = 0
            mine = touched[place] == found if len(touched) else np.zeros(len(found), bool)
            page = np.repeat(np.arange(len(loaded.places)), loaded.given[table].heights())
            given[table] = cut_by(rows.filter(mine), page[mine], len(loaded.places))
            others[table] = cut_by(rows.filter(~mine), page[~mine], len(loaded.places))
        return Loaded(loaded.places, given, others)

    def _load_old(
        self,
        places: npt.NDArray[np.int64],
        pages: Sequence[Page],
        entries: Mapping[Name, Entry | None],
    ) -> Loaded:
        """Load pages some of which are of an older version, each page by itself."""
        parts: dict[str, list[pl.DataFrame]] = {table: [] for table in self._tables}
        queued: dict[str, list[pl.DataFrame]] = {}
        for page in pages:
            state: dict[str, pl.DataFrame] = {}
            versions = set()
            for table in page.tables:
                entry = entries[(table, page.number)]
                if entry is not None:
                    state[table] = self._entries.decode([entry])
                    versions.add(self._entries.version(entry))
            if versions and versions != {self._declared.version}:
                state = self._entries.migrated(state, min(versions))
            for table, empty in self._empty.items():
                rows = self._entries.widened(state.pop(table, empty), table)
                if rows.schema != empty.schema:
                    raise ValueError(
                        f"state of version {sorted(versions)}, table {table!r}: has the columns "
                        f"{dict(rows.schema)}, and {dict(empty.schema)} are wanted"
                    )
                parts[table].append(rows)
            for table in self._declared.shared:
                state.pop(table, None)  # as `migrate` may make them of nothing
            for table in self._declared.queued:
                if table in state:
                    queued.setdefault(table, []).append(state.pop(table))
            if state:
                raise ValueError(
                    f"`migrate` leaves tables that this version lacks: {sorted(state)}"
                )
        given = {
            table: cut_of(pl.concat(found), np.array([p.height for p in found], np.int64))
            for table, found in parts.items()
        }
        waiting = {table: pl.concat(found) for table, found in queued.items()}
        return Loaded(places, given, migrated=True, queued=waiting)

    # -- keeping ------------------------------------------------------------------------------

    def keep(self, loaded: Loaded, changed: State) -> None:
        """Take the rows that loaded pages have now; those of a table that is not given are as before.

        Changes the places of pages behind them.

        Raises:
            ValueError: a row belongs to a page that was not loaded.
        """
        if loaded.migrated:
            changed = {**loaded.state, **changed}
        cut = {table: self._cut(loaded, table, rows) for table, rows in changed.items()}
        dirty: dict[int, Rewrite] = {}
        now: Mapping[str, Stretch]
        touched: Sequence[str]
        for index, place in enumerate(loaded.places):
            touched = [
                table
                for table, rows in cut.items()
                if loaded.migrated or not same(rows.page(index), loaded.given[table].page(index))
            ]
            if touched or loaded.migrated:
                now = {table: loaded.whole(table, index, cut.get(table)) for table in self._tables}
                dirty[int(place)] = (now, touched)
        replaced: dict[int, list[Page]] = {}
        for places in self._together(dirty):
            first = self.directory.pages[places[0]]
            now, touched = dirty[places[0]]
            for place in places[1:]:
                now = {table: joined(rows, dirty[place][0][table]) for table, rows in now.items()}
                touched = list(self._tables)
                self._drop(self.directory.pages[place])
                replaced[place] = []
            replaced[places[0]] = self._rewrite(first, now, touched)
        if replaced:
            pages: list[Page] = []
            for place, page in enumerate(self.directory.pages):
                pages += replaced.get(place, [page])
            if not pages:
                pages = [Page(self._entries.number(), 0)]
            pages[0].low = 0
            self.directory.pages = pages

    def _cut(self, loaded: Loaded, table: str, rows: pl.DataFrame) -> Cut:
        """Return the rows in the order of the loaded pages."""
        lows = self.lows()
        hashes = hashes_of(rows[KEY])
        place = np.searchsorted(lows, hashes, "right") - 1
        index = np.searchsorted(loaded.places, place)
        if len(index) and (
            int(np.max(index)) >= len(loaded.places) or (loaded.places[index] != place).any()
        ):
            raise ValueError(f"table {table!r} was given rows of keys that the step did not have")
        return cut_by(rows, index, len(loaded.places))

    def _together(self, dirty: Mapping[int, Rewrite]) -> Iterator[list[int]]:
        """Yield the places of pages to be rewritten: small neighbours together, as one page."""
        group: list[int] = []
        size = 0.0
        for place, (now, _) in dirty.items():
            mine = _estimate(self.directory.pages[place], now)
            if group and (place != group[-1] + 1 or size + mine > self._limit // 4):
                yield group
                group, size = [], 0.0
            group.append(place)
            size += mine
        if group:
            yield group

    def _drop(self, page: Page) -> None:
        """Remove a page whose rows another one takes."""
        for table in page.tables:
            self._entries.remove((table, page.number))

    def _rewrite(
        self, page: Page, now: Mapping[str, Stretch], touched: Sequence[str]
    ) -> list[Page]:
        """Write a page anew, as several if it has become too large; return those."""
        encoded = {table: now[table].encoded() for table in touched if now[table].height}
        size = sum(map(len, encoded.values())) + sum(
            stored.size
            for table, stored in page.tables.items()
            if table in self._tables and table not in touched
        )
        frames = {t: stretch.rows() for t, stretch in now.items()} if size > self._limit else {}
        cuts = _cuts(frames, size, self._limit) if frames else []
        if not cuts:
            self._write(page, touched, now, encoded)
            return [page] if page.tables else []
        lows = [page.low, *cuts]
        parts = {table: cut_at(frame, lows) for table, frame in frames.items()}
        made = []
        for number, low in enumerate(lows):
            part = Page(self._entries.number() if number else page.number, low)
            if number == 0:
                part.tables = page.tables
            rows = {table: cut.page(number) for table, cut in parts.items()}
            full = {table: stretch.encoded() for table, stretch in rows.items() if stretch.height}
            self._write(part, [*now, *page.tables], rows, full)
            if part.tables:
                made.append(part)
        return made

    def _write(
        self,
        page: Page,
        touched: Sequence[str],
        now: Mapping[str, Stretch],
        encoded: Mapping[str, bytes],
    ) -> None:
        """Keep what a page has now of some tables, and drop what is of tables nobody declares."""
        for table in dict.fromkeys((*touched, *(t for t in page.tables if t not in self._tables))):
            name = (table, page.number)
            if table in encoded:
                data = encoded[table]
                self._entries.put(name, data)
                due = now[table].due(self._tables[table])
                page.tables[table] = Stored(now[table].height, len(data), due)
            elif table in page.tables:
                del page.tables[table]
                self._entries.remove(name)


def _estimate(page: Page, now: Mapping[str, Stretch]) -> float:
    """Return about how many bytes a page takes with other rows."""
    size = 0.0
    for table, rows in now.items():
        stored = page.tables.get(table)
        each = stored.size / stored.rows if stored else 100.0
        size += each * rows.height
    return size


def _cuts(now: Mapping[str, pl.DataFrame], size: int, limit: int) -> list[int]:
    """Return the hashes at which to cut a page so that parts have about half the limit each.

    None if all rows have one hash: nothing to cut.
    """
    hashes = [hashes_of(rows[KEY]) for rows in now.values() if not rows.is_empty()]
    if not hashes:
        return []
    values, counts = np.unique(np.concatenate(hashes), return_counts=True)
    if len(values) < 2:
        return []
    parts = -(-size // (limit // 2))
    done = np.cumsum(counts) / counts.sum()
    at = np.searchsorted(done, np.arange(1, parts) / parts) + 1
    # A hash with many rows: cut before it too, that its neighbours need not be read with it.
    at = np.concatenate([at, np.flatnonzero(counts > counts.sum() / parts)])
    at = np.unique(at[(at > 0) & (at < len(values))])
    return [int(hash_) for hash_ in values[at]]
