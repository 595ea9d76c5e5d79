"""A bucket's store as a dict, and batches taken through a logic without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from mainstem_keyed_state.directory import Directory
from mainstem_keyed_state.entries import Entries, Entry, Name
from mainstem_keyed_state.loaded_pages import Declared
from mainstem_keyed_state.logic import KEY, Logic
from mainstem_keyed_state.runner import Stepping


class DictStore:
    """Entries in a dict; counts what was asked for and written."""

    def __init__(self) -> None:
        self.entries: dict[Name, Entry] = {}
        self.got: list[Name] = []
        self.written: list[Name] = []

    def get(self, names: Sequence[Name]) -> list[Entry | None]:
        self.got += names
        return [self.entries.get(name) for name in names]

    def put(self, entries: Mapping[Name, Entry]) -> None:
        self.written += entries
        self.entries.update(entries)

    def remove(self, names: Sequence[Name]) -> None:
        for name in names:
            del self.entries[name]  # what is not there is not to be removed

    def forget_counts(self) -> None:
        self.got, self.written = [], []


def key(value: int | str | None, hash_: int | None = None) -> bytes | None:
    """Return a key as Spark makes it, or one with a hash of the test's choosing."""
    import zlib

    if value is None:
        return None
    data = str(value).encode()
    return (zlib.crc32(data) if hash_ is None else hash_).to_bytes(4, "big") + data


class OneBucket:
    """A logic on one bucket, taken through batch by batch."""

    def __init__(self, logic: Logic, **limits: int) -> None:
        self.logic = logic
        self.store = DictStore()
        self.limits = limits
        self.timer: int | None = None

    def batch(
        self, rows: Mapping[str, Sequence[Mapping[str, Any]]], watermark: int | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """Take rows by port, each with `KEY`; return the rows that came out, by output."""
        frames = {
            port: [
                pl.DataFrame(
                    list(given), schema={KEY: pl.Binary, **self.logic.ports[port]}, orient="row"
                )
            ]
            for port, given in rows.items()
            if given
        }
        stepping = Stepping(self.logic, **self.limits)
        found: dict[str, list[dict[str, Any]]] = {}
        for name, out in stepping.bucket(self.store, frames, watermark):
            found.setdefault(name, []).extend(out.to_dicts())
        assert stepping.timer == self.timer, "the bucket forgot when it was to be woken"
        self.timer = stepping.next_timer
        return found

    def entries(self) -> Entries:
        """Return what reads and writes the bucket's entries."""
        logic = self.logic
        return Entries(self.store, Declared(logic.tables, logic.version, logic.migrate))

    def directory(self) -> Directory:
        """Return which pages there are."""
        return self.entries().directory
