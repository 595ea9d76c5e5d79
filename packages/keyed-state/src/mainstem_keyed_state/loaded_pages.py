"""What a logic declares of its state, and what was loaded of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from mainstem_keyed_state.logic import KEY, Table
from mainstem_keyed_state.page_codec import Cut, Stretch, joined

#: Rows by table.
State = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Loaded:
    """Pages that were loaded, and their rows by table.

    Attributes:
        places: the pages' places in the directory, in order.
        given: the rows that a step is given, by page.
        others: further rows that the pages have, by page; none when left out.
        migrated: whether some rows were of an older version.
        queued: rows that an older version kept by key, of tables that are queued now.
    """

    places: npt.NDArray[np.int64]
    given: Mapping[str, Cut]
    others: Mapping[str, Cut] = field(default_factory=dict)
    migrated: bool = False
    queued: State = field(default_factory=dict)

    @property
    def state(self) -> State:
        """The rows that a step is given."""
        return {table: cut.rows for table, cut in self.given.items()}

    def whole(self, table: str, index: int, now: Cut | None) -> Stretch:
        """Return all rows that a page has, `now` in place of those that were given."""
        given = (now or self.given[table]).page(index)
        return joined(self.others[table].page(index), given) if self.others else given


class Declared:
    """What a logic declares of its state.

    Args:
        migrate: makes this version's rows of an older one's; see `Logic.migrate`.
    """

    def __init__(
        self, tables: Mapping[str, Table], version: int, migrate: Callable[[State, int], State]
    ) -> None:
        self.version = version
        self.migrate = migrate
        self.all = {
            name: pl.DataFrame(schema={KEY: pl.Binary, **table.columns})
            for name, table in tables.items()
        }
        self.schemas = {
            name: empty.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
            for name, empty in self.all.items()
        }
        #: When rows are due, of the tables that stand on pages and of those that are queued.
        self.due = {
            name: table.due
            for name, table in tables.items()
            if not table.queued and not table.shared
        }
        self.queued = {
            name: table.due for name, table in tables.items() if table.queued and table.due
        }
        self.shared = [name for name, table in tables.items() if table.shared]
        self.empty = {name: self.all[name] for name in self.due}
