"""Tables of a bucket that all its keys share: an entry for each, written whole where it changes."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from mainstem_keyed_state.entries import Entries
from mainstem_keyed_state.loaded_pages import Declared, State
from mainstem_keyed_state.page_codec import uncut


class Shared:
    """The shared tables of a bucket.

    Attributes:
        state: their rows.
    """

    def __init__(self, entries: Entries, declared: Declared) -> None:
        self._entries = entries
        self._declared = declared
        self._there = entries.directory.shared
        self.state: Mapping[str, pl.DataFrame] = {
            name: self._read(name) for name in declared.shared
        }

    def _read(self, table: str) -> pl.DataFrame:
        empty = self._declared.all[table]
        number, rows = self._there.get(table, (0, 0))
        if not rows:
            return empty
        (entry,) = self._entries.get([(table, number)])
        if entry is None:
            raise ValueError(
                f"shared table {table!r}: the directory knows of rows that are not there"
            )
        found = self._entries.decode([entry])
        if found.height != rows:
            raise ValueError(f"shared table {table!r} has other rows than the directory says")
        if (entry[0], table) not in self._entries.present():
            moved = self._entries.migrated({table: found}, self._entries.version(entry))
            found = self._entries.widened(moved[table], table)
        if found.schema != empty.schema:
            raise ValueError(
                f"shared table {table!r} has the columns {dict(found.schema)}, and "
                f"{dict(empty.schema)} are wanted"
            )
        return found

    def keep(self, changed: State) -> None:
        """Take the rows that tables have now; those that are not given are as before."""
        for table, rows in changed.items():
            before = self._there.pop(table, None)
            if before is not None:
                self._entries.remove((table, before[0]))
            if rows.height:
                number = self._entries.number()
                self._entries.put((table, number), uncut(rows).encoded())
                self._there[table] = (number, rows.height)
        self.state = {**self.state, **changed}
