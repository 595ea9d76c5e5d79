"""The entries in which a bucket's rows are kept: bytes by table and number, and what layout they have.

Each ends with a checksum (CRC-32) of its name, its layout and its bytes, looked at when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import polars as pl
from mainstem.durable import DamagedError
from zlib_ng.zlib_ng import crc32  # thirty times as fast as zlib's own

from mainstem_keyed_state.directory import Directory, Layout
from mainstem_keyed_state.loaded_pages import Declared
from mainstem_keyed_state.page_codec import decode

#: The name of an entry: table and number.
Name = tuple[str, int]
#: An entry: the number of the layout that its bytes have, and the bytes.
Entry = tuple[int, bytes]

_DIRECTORY: Name = ("", 0)


class Store(Protocol):
    """Where the entries of one bucket are kept."""

    def get(self, names: Sequence[Name]) -> list[Entry | None]:
        """Return the entries of that name, None for those that are not there."""

    def put(self, entries: Mapping[Name, Entry]) -> None:
        """Keep entries, in place of those that were there."""

    def remove(self, names: Sequence[Name]) -> None:
        """Remove entries that are there."""


def sealed(name: Name, entry: Entry) -> Entry:
    """Return an entry as it is kept, with its checksum."""
    layout, data = entry
    return layout, data + _checksum(name, layout, data)


def opened(name: Name, kept: Entry | None) -> Entry | None:
    """Return an entry from what was kept of it.

    Raises:
        DamagedError: it is not what was kept under that name.
    """
    if kept is None:
        return None
    layout, data = kept[0], kept[1][:-_CHECKSUM]
    if kept[1][-_CHECKSUM:] != _checksum(name, layout, data):
        what = f"page {name[1]} of table {name[0]!r}" if name != _DIRECTORY else "its directory"
        raise DamagedError(
            f"the state was changed after it was written ({what}): take the query back to an earlier "
            "batch (`mainstem checkpoint rollback`), bring the checkpoint back from a copy, or start "
            "over with `--fresh`"
        )
    return layout, data


def _checksum(name: Name, layout: int, data: bytes) -> bytes:
    return crc32(data, crc32(f"{name} {layout}".encode())).to_bytes(_CHECKSUM, "big")


_CHECKSUM = 4


class Entries:
    """The entries of one bucket; what is put or removed is written by `flush`.

    Attributes:
        directory: what there is; one more entry, written by `close`.
    """

    def __init__(self, store: Store, declared: Declared) -> None:
        self._store = store
        self._declared = declared
        (found,) = self.get([_DIRECTORY])
        self._before = found[1] if found else b""
        self.directory = Directory.of_bytes(found[1]) if found else Directory()
        self._put: dict[Name, Entry] = {}
        self._removed: set[Name] = set()
        #: The number of each table's present layout, once one is asked for.
        self._layouts: dict[str, int] = {}

    # -- reading ------------------------------------------------------------------------------

    def get(self, names: Sequence[Name]) -> list[Entry | None]:
        """Return the entries of that name, None for those that are not there.

        Raises:
            DamagedError: one is not what was kept.
        """
        found = self._store.get(names)
        return [opened(name, kept) for name, kept in zip(names, found, strict=True)]

    def present(self) -> set[tuple[int, str]]:
        """Return the layouts, and the tables they are of, that are this version's."""
        return {
            (number, layout.table)
            for number, layout in enumerate(self.directory.layouts)
            if layout.version == self._declared.version
            and layout.table in self._declared.schemas
            and layout.schema.equals(self._declared.schemas[layout.table])
        }

    def version(self, entry: Entry) -> int:
        """Return the version of the logic that wrote an entry."""
        return self.directory.layouts[entry[0]].version

    def widened(self, rows: pl.DataFrame, table: str) -> pl.DataFrame:
        """Return rows of before columns were added to a table, in which those are null."""
        wanted = self._declared.all[table].schema
        if rows.schema == wanted or not rows.schema.items() <= wanted.items():
            return rows
        return rows.select(
            name if name in rows.columns else pl.lit(None, kind).alias(name)
            for name, kind in wanted.items()
        )

    def decode(self, entries: Sequence[Entry]) -> pl.DataFrame:
        """Return the rows of entries of one layout, in one go: their bytes are Arrow's messages."""
        schema = self.directory.layouts[entries[0][0]].schema
        return decode(schema, [data for _, data in entries])

    def migrated(self, state: Mapping[str, pl.DataFrame], version: int) -> dict[str, pl.DataFrame]:
        """Return what an older version kept as the present one keeps it."""
        if version == self._declared.version:
            return dict(state)
        empty = {
            layout.table: decode(layout.schema, [])
            for layout in self.directory.layouts
            if layout.version == version
        }
        return dict(self._declared.migrate({**empty, **state}, version))

    # -- writing ------------------------------------------------------------------------------

    def number(self) -> int:
        """Return a number that no entry has had."""
        self.directory.next += 1
        return self.directory.next - 1

    def put(self, name: Name, data: bytes) -> None:
        """Keep rows, in place of those that are there."""
        self._removed.discard(name)
        self._put[name] = (self._layout(name[0]), data)

    def remove(self, name: Name) -> None:
        """Remove rows that are there."""
        self._put.pop(name, None)
        self._removed.add(name)

    def _layout(self, table: str) -> int:
        """Return the number of the present layout of a table.

        The first one brings those of all tables: a later version's `migrate` is to know them too.
        """
        if table not in self._layouts:
            self._layouts = {name: number for number, name in self.present()}
            for name, schema in self._declared.schemas.items():
                if name not in self._layouts:
                    self._layouts[name] = len(self.directory.layouts)
                    self.directory.layouts.append(Layout(self._declared.version, name, schema))
        return self._layouts[table]

    def flush(self) -> None:
        """Write what was put and removed; later reads see it."""
        if self._put:
            self._store.put({name: sealed(name, entry) for name, entry in self._put.items()})
        if self._removed:
            self._store.remove(sorted(self._removed))
        self._put, self._removed = {}, set()

    def close(self) -> None:
        """Write the rest, and the directory."""
        self.flush()
        now = self.directory.to_bytes()
        if now == self._before:
            return
        if not self.directory.empty:
            self._store.put({_DIRECTORY: sealed(_DIRECTORY, (-1, now))})
        elif self._before:
            self._store.remove([_DIRECTORY])
        self._before = now
