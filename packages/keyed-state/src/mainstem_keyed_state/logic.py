"""What an operator with state by key does: a pure function over frames.

An author writes a `Logic`; the library groups rows by key, keeps the state, loads what a batch touches,
writes back what has changed, and wakes keys when the watermark passes what they wait for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

#: The column that rows of all ports and tables share: the key's values, as bytes; null where one of them
#: is null, which equals nothing. Rows without a key reach the logic in `Step.rows` all the same.
KEY = "_key"
#: The main output.
MAIN = ""


@dataclass(frozen=True)
class Table:
    """A kind of state: rows by key.

    Attributes:
        columns: the rows' columns, without `KEY`; any type of Polars but Categorical, Enum and Object.
        due: the column (Datetime, microseconds, UTC; null for never) that says when a row wants to be
            looked at: once the watermark is at it or beyond, its key is touched though no row of the
            batch has it.
        queued: whether rows wait for that time apart from their keys: a step is given those that are due,
            once, and what it returns of the table is added to those that wait. Where many rows of many
            keys wait, this costs what comes and goes, not what is there.
        shared: whether the rows are of no key that a step touches, but there for each of them: see
            `Logic.share`, which alone changes them. Their `KEY` is that of the port which they came by.
    """

    columns: pl.Schema
    due: str | None = None
    queued: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Step:
    """What a logic is given: some keys' share of a batch, with all of the batch's rows of those keys.

    Attributes:
        rows: the rows of the batch by port, with `KEY` and the columns of the port, in no order.
        state: the rows by table of every key that is touched, because it has rows in the batch or is
            due; rows of other keys may stand among them. Of shared tables all rows.
        watermark: the batch's, in microseconds since 1970, or None before there is one. A row whose
            event time is before it is late; late rows are among `rows`.
    """

    rows: Mapping[str, pl.DataFrame]
    state: Mapping[str, pl.DataFrame]
    watermark: int | None


@dataclass(frozen=True)
class Done:
    """What a logic returns.

    Attributes:
        outputs: rows by output; one that is left out has none.
        state: the tables that have changed: all rows that the step was given, as they are now. Of a key
            that is not touched, all rows must be there unchanged. What keeps its place among the rows
            of its key and its neighbours is seen to be unchanged, and is not written again.
    """

    outputs: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    state: Mapping[str, pl.DataFrame] = field(default_factory=dict)


class Logic(ABC):
    """An operator's logic. It is pickled to the workers, and the same input gives the same output.

    Attributes:
        ports: the columns of each port's rows, without `KEY`.
        tables: the state, by name.
        outputs: the columns of each output's rows; `MAIN` is the main one.
        everywhere: the ports whose rows are for all keys: `share` is given them, and `step` is not. They
            are few, and kept as often as there are buckets.
        wanted: the named outputs that somebody reads, so that work for the others can be left out; None
            where all are. It is set before the first step.
        version: of what the tables hold; raise it with every change of that, and write `migrate`.
    """

    ports: Mapping[str, pl.Schema]
    tables: Mapping[str, Table]
    outputs: Mapping[str, pl.Schema]
    everywhere: Collection[str] = ()
    wanted: Collection[str] | None = None
    version: int = 1

    def share(self, step: Step) -> Done:
        """Return the shared tables with a batch's rows of the ports in `everywhere`.

        It comes before the steps of the batch, with the shared tables as state, and works once for each
        bucket: with the same rows it must return the same.
        """
        raise NotImplementedError(f"{type(self).__name__} has ports `everywhere`, and no `share`")

    def wants(self, output: str) -> bool:
        """Whether somebody reads a named output."""
        return self.wanted is None or output in self.wanted

    @abstractmethod
    def step(self, step: Step) -> Done:
        """Handle some keys' share of a batch."""

    def migrate(
        self, state: Mapping[str, pl.DataFrame], version: int
    ) -> Mapping[str, pl.DataFrame]:
        """Return what an older version kept of some keys as this version would keep it.

        Called when those keys are next touched, so that a large state is not rewritten at once.

        Args:
            state: rows by table, with `KEY`, in the tables and columns that the older version had; a
                table without rows is an empty frame. State of before layouts of unused tables were
                kept may lack one that never had rows in its bucket.
            version: the older version.

        Raises:
            NotImplementedError: this version can't read that one.
        """
        raise NotImplementedError(f"{type(self).__name__} can't read state of version {version}")
