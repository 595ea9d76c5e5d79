"""The states of keys while a batch is worked on, and the table of them that comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from mainstem import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from mainstem_keyed_state import KEY, Table
from mainstem_keyed_state.times import TIME

from mainstem_operators_eventsourcing.app import App, State
from mainstem_operators_eventsourcing.values import Values

#: How many events a key has had, and whether it has a state: an empty one is not none.
_VERSION, _THERE = "_version", "_there"
_FACTS = pl.Schema({KEY: pl.Binary(), _VERSION: pl.Int64(), _THERE: pl.Boolean()})


def state_table(values: Values) -> Table:
    """Return what is kept of a key."""
    kept = {name: kind for name, kind in _FACTS.items() if name != KEY}
    return Table(pl.Schema({**kept, **values.schema}))


class States:
    """The states of some keys.

    Args:
        before: what the state table has of them.
        by: the columns of the key in the rows of the batch.
        told: whether anybody reads what they become.
    """

    def __init__(
        self, app: App, values: Values, before: pl.DataFrame, by: pl.Schema, *, told: bool = True
    ) -> None:
        self._tells = told
        self._app, self._values, self._by = app, values, by
        self._evolve = app.function("evolve")
        initial = app.initial
        self._initial = None if initial is None else values.taken(initial)
        self._before = before
        self._versions: dict[bytes, int] = {}
        self._kept: dict[bytes, tuple[Any, ...] | None] = {}
        names = [KEY, _VERSION, _THERE, *values.names]
        for key, version, there, *rest in before.select(names).iter_rows():
            self._versions[key] = version
            self._kept[key] = tuple(rest) if there else None
        self._touched: dict[bytes, None] = {}
        self._told: list[tuple[Any, ...]] = []

    def knows(self, key: bytes) -> bool:
        """Whether a key has had any event."""
        return key in self._versions

    def version(self, key: bytes) -> int:
        """Return how many events a key has had."""
        return self._versions.get(key, 0)

    def of(self, key: bytes) -> State:
        """Return the state of a key."""
        kept = self._kept.get(key) if key in self._versions else self._initial
        return None if kept is None else self._values.given(kept)

    def evolve(self, key: bytes, events: Sequence[dict[str, Any]], version: int) -> None:
        """Let events be, the last of which has a version.

        Raises:
            ValueError: the function raised something, or returned what is no state.
        """
        state, kept = self.of(key), None
        for number, event in enumerate(events):
            if number:  # as it would be in a batch of its own
                state = None if kept is None else self._values.given(kept)
            try:
                state = self._evolve(state, event)
            except Exception as error:
                self._app.fail("evolve", error)
            kept = None if state is None else self._values.taken(state)
        self._kept[key] = kept
        self._versions[key] = version
        self._touched[key] = None

    def tell(self, key: bytes, by: Sequence[Any], had: bool, at: Any) -> None:
        """Tell the state that a key has now.

        Args:
            by: the values of the key's columns.
            had: whether it had one when that was last told.
            at: when that came about.
        """
        kept = self._kept[key]
        if not self._tells or (kept is None and not had):
            return
        kind = "delete" if kept is None else "update_postimage" if had else "insert"
        values = kept or (None,) * len(self._values.names)
        self._told.append((kind, self._versions[key], at, *by, *values))

    def has(self, key: bytes) -> bool:
        """Whether a key has a state."""
        return self._kept.get(key) is not None

    def changes(self) -> pl.DataFrame:
        """Return what was told."""
        return self._values.frame(self._told, self.told(self._by))

    @staticmethod
    def told(by: pl.Schema) -> pl.Schema:
        """Return the columns of `changes` before those of the state."""
        kinds = {CHANGE_TYPE: pl.String(), COMMIT_VERSION: pl.Int64(), COMMIT_TIMESTAMP: TIME}
        return pl.Schema({**kinds, **by})

    def after(self) -> pl.DataFrame:
        """Return what the state table has of all of them now."""
        if not self._touched:
            return self._before
        nothing = (None,) * len(self._values.names)
        rows = []
        for key in self._touched:
            kept = self._kept[key]
            rows.append((key, self._versions[key], kept is not None, *(kept or nothing)))
        new = self._values.frame(rows, _FACTS).select(self._before.columns)
        others = self._before.join(new.select(KEY), on=KEY, how="anti", maintain_order="left")
        return pl.concat([others, new])
