"""The state of one bucket, as pages: each holds the rows of a range of hashes, of every table.

A page that grows too large is cut in two or more at hashes that share its bytes out evenly; one that
becomes empty goes, its range falls to a neighbour, and small neighbours become one. So pages follow the
data, however skewed: only a page whose rows all have one hash stays as large as it is. The directory says
which pages there are, how many rows each has and when the earliest of them is due; it is one more entry
of the bucket's state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from mainstem_keyed_state.directory import NEVER, Directory, Layout, Page, Stored
from mainstem_keyed_state.hashes import Hashes, hashes_of
from mainstem_keyed_state.loaded import Declared, Loaded, State
from mainstem_keyed_state.logic import KEY
from mainstem_keyed_state.stretches import (
    Cut,
    Stretch,
    cut_at,
    cut_by,
    cut_of,
    decode,
    joined,
    same,
)

#: The name of an entry: table and page.
Name = tuple[str, int]
#: An entry: the number of the layout that its bytes have, and the bytes.
Entry = tuple[int, bytes]

#: The rows that a page has now by table, and the tables that have changed.
Rewrite = tuple[Mapping[str, Stretch], Sequence[str]]

_DIRECTORY: Name = ("", 0)
#: A page above this many bytes is cut.
PAGE_BYTES = 64 * 1024
#: Rows of other keys are left out of a step if there are so many times more of them than of touched ones.
_OTHERS = 8


class Store(Protocol):
    """Where the entries of one bucket are kept."""

    def get(self, names: Sequence[Name]) -> list[Entry | None]:
        """Return the entries of that name, None for those that are not there."""

    def put(self, entries: Mapping[Name, Entry]) -> None:
        """Keep entries, in place of those that were there."""

    def remove(self, names: Sequence[Name]) -> None:
        """Remove entries that are there."""


class Pages:
    """The state of one bucket.

    Args:
        limit: the bytes above which a page is cut.
    """

    def __init__(self, store: Store, declared: Declared, limit: int = PAGE_BYTES) -> None:
        self._store = store
        self._declared = declared
        self._tables = declared.due
        self._empty = declared.empty
        self._limit = limit
        (found,) = store.get([_DIRECTORY])
        self._before = found[1] if found else b""
        self.directory = Directory.of_bytes(found[1]) if found else Directory()
        self._put: dict[Name, Entry] = {}
        self._removed: set[Name] = set()

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
        due = min(page.due for page in self.directory.pages)
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
        entries = dict(zip(names, self._store.get(names), strict=True))
        present = self._present()
        if any(entry and (entry[0], name[0]) not in present for name, entry in entries.items()):
            return self._load_old(places, pages, entries)
        given = {}
        for table, empty in self._empty.items():
            there = [e for page in pages if (e := entries.get((table, page.number))) is not None]
            rows = self._decode(there) if there else empty
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

    def _present(self) -> set[tuple[int, str]]:
        """Return the layouts, and the tables they are of, that are this version's."""
        return {
            (number, layout.table)
            for number, layout in enumerate(self.directory.layouts)
            if layout.version == self._declared.version
            and layout.table in self._tables
            and layout.schema.equals(self._declared.schemas[layout.table])
        }

    def _decode(self, entries: Sequence[Entry]) -> pl.DataFrame:
        """Return the rows of entries of one layout, in one go: their bytes are Arrow's messages."""
        schema = self.directory.layouts[entries[0][0]].schema
        return decode(schema, [data for _, data in entries])

    def _load_old(
        self,
        places: npt.NDArray[np.int64],
        pages: Sequence[Page],
        entries: Mapping[Name, Entry | None],
    ) -> Loaded:
        """Load pages some of which are of an older version, each page by itself."""
        parts: dict[str, list[pl.DataFrame]] = {table: [] for table in self._tables}
        for page in pages:
            state: dict[str, pl.DataFrame] = {}
            versions = set()
            for table in page.tables:
                entry = entries[(table, page.number)]
                if entry is not None:
                    state[table] = self._decode([entry])
                    versions.add(self.directory.layouts[entry[0]].version)
            if versions and versions != {self._declared.version}:
                older = min(versions)
                state = dict(self._declared.migrate(self._empty_of(older) | state, older))
            for table, empty in self._empty.items():
                rows = state.pop(table, empty)
                if rows.schema != empty.schema:
                    raise ValueError(
                        f"state of version {sorted(versions)}, table {table!r}: has the columns "
                        f"{dict(rows.schema)}, and {dict(empty.schema)} are wanted"
                    )
                parts[table].append(rows)
            if state:
                raise ValueError(
                    f"`migrate` leaves tables that this version lacks: {sorted(state)}"
                )
        given = {
            table: cut_of(pl.concat(found), np.array([p.height for p in found], np.int64))
            for table, found in parts.items()
        }
        return Loaded(places, given, migrated=True)

    def _empty_of(self, version: int) -> dict[str, pl.DataFrame]:
        """Return the tables of a version, without rows, as far as the directory knows them."""
        return {
            layout.table: decode(layout.schema, [])
            for layout in self.directory.layouts
            if layout.version == version
        }

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
            if touched:
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
                pages = [Page(self.directory.next, 0)]
                self.directory.next += 1
            pages[0].low = 0
            self.directory.pages = pages

    def _cut(self, loaded: Loaded, table: str, rows: pl.DataFrame) -> Cut:
        """Return the rows in the order of the loaded pages."""
        lows = self.lows()
        hashes = hashes_of(rows[KEY])
        place = np.searchsorted(lows, hashes, "right") - 1
        index = np.searchsorted(loaded.places, place)
        if len(index) and (
            index.max() >= len(loaded.places) or (loaded.places[index] != place).any()
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
            self._removed.add((table, page.number))

    def _rewrite(
        self, page: Page, now: Mapping[str, Stretch], touched: Sequence[str]
    ) -> list[Page]:
        """Write a page anew, as several if it has become too large; return those."""
        encoded = {table: now[table].encoded() for table in touched if now[table].height}
        size = sum(map(len, encoded.values())) + sum(
            stored.size for table, stored in page.tables.items() if table not in touched
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
            part = Page(page.number, low) if number == 0 else Page(self.directory.next, low)
            self.directory.next += number > 0
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
                self._removed.discard(name)
                self._put[name] = (self._layout(table), data)
                due = _earliest(now[table].rows(), self._tables[table])
                page.tables[table] = Stored(now[table].height, len(data), due)
            elif table in page.tables:
                del page.tables[table]
                self._put.pop(name, None)
                self._removed.add(name)

    def _layout(self, table: str) -> int:
        """Return the number of the present layout of a table.

        The first one brings those of all tables: a later version's `migrate` is to know them too.
        """
        present = {name: number for number, name in self._present()}
        if table not in present:
            for name, schema in self._declared.schemas.items():
                if name not in present:
                    present[name] = len(self.directory.layouts)
                    self.directory.layouts.append(Layout(self._declared.version, name, schema))
        return present[table]

    # -- writing ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what was kept; later loads see it."""
        if self._put:
            self._store.put(self._put)
        if self._removed:
            self._store.remove(sorted(self._removed))
        self._put, self._removed = {}, set()

    def close(self) -> None:
        """Write what was kept, and the directory."""
        self.flush()
        now = self.directory.to_bytes()
        if now == self._before:
            return
        if any(page.tables for page in self.directory.pages) or self.directory.timer is not None:
            self._store.put({_DIRECTORY: (-1, now)})
        elif self._before:
            self._store.remove([_DIRECTORY])
        self._before = now


def _estimate(page: Page, now: Mapping[str, Stretch]) -> float:
    """Return about how many bytes a page takes with other rows."""
    size = 0.0
    for table, rows in now.items():
        stored = page.tables.get(table)
        each = stored.size / stored.rows if stored else 100.0
        size += each * rows.height
    return size


def _earliest(rows: pl.DataFrame, column: str | None) -> int:
    if column is None:
        return NEVER
    found = rows[column].to_physical().min()
    return NEVER if found is None else int(found)  # type: ignore[arg-type]


def _cuts(now: Mapping[str, pl.DataFrame], size: int, limit: int) -> list[int]:
    """Return the hashes at which to cut a page so that parts have about half the limit each.

    None if all rows have one hash: nothing to cut.
    """
    hashes = [hashes_of(rows[KEY]) for rows in now.values() if not rows.is_empty()]
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
