"""What totals are made of in state by key: parts of rows, which can be put together, and what they give.

An accumulator is one call of an aggregate function. A row has parts (`lifted`), parts of several rows
become the parts of all of them (`merged`), in any order and however they are grouped, and what comes
out is computed from these (`settled`, and `result`, in SQL). So a window can grow batch by batch,
sessions can merge, and a sliding window can be put together anew.

Results are those of Spark's functions. What Spark leaves open is settled: `first` and `last` go by the
event time, `min_by` and `max_by` take the earliest of several, `mode` the least, lists are in the order
of time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from mainstem_operators_windows.totals.calls import Call

FLOATS = (pl.Float32, pl.Float64)
Kinds = Sequence[pl.DataType]


@dataclass(frozen=True)
class Asked:
    """A call, and Spark's types of its values, in DDL."""

    call: Call
    types: Sequence[str]


class Accumulator(ABC):
    """One call of an aggregate function.

    Args:
        number: tells it from the others of the operator.
        call: what is called.
        kinds: the types of its inputs, as the rows have them.
        order: the rows' columns whose order is that of the events.
        weighted: whether rows may be taken back; see `lifted`.
    """

    #: Whether the parts of a row can be taken back from those of others.
    additive: ClassVar[bool] = False
    #: Whether parts are of whole numbers, or single values: what leaves a window leaves nothing behind.
    rolls: ClassVar[bool] = False

    def __init__(
        self,
        number: int,
        call: Call,
        kinds: Kinds,
        order: Mapping[str, pl.DataType],
        *,
        weighted: bool = False,
    ) -> None:
        self.number = number
        self.call = call
        self.kinds = list(kinds)
        self.order = dict(order)
        self.weighted = weighted

    @property
    def once(self) -> bool:
        """Whether equal values count once."""
        return False

    # -- Spark's side -------------------------------------------------------------------------

    @classmethod
    def inputs(cls, asked: Asked) -> list[str]:
        """Return the SQL of what is read of a row."""
        return [where(asked.call, text) for text in asked.call.values]

    def result(self, kind: str) -> str:
        """Return SQL for the result, over the columns of `told`.

        Args:
            kind: Spark's type of it, in DDL.
        """
        (only,) = self.told
        return only

    # -- the logic's side ---------------------------------------------------------------------

    @property
    @abstractmethod
    def parts(self) -> dict[str, pl.DataType]:
        """The columns of the parts."""

    @property
    def told(self) -> dict[str, pl.DataType]:
        """The columns that come out."""
        return self.parts

    @abstractmethod
    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        """Return the parts of a row.

        Args:
            weight: 1, or -1 for a row that is taken back, which only an additive one is given.
        """

    @abstractmethod
    def merged(self) -> list[pl.Expr]:
        """Return the parts of several rows, as aggregates of theirs."""

    def settled(self) -> list[pl.Expr]:
        """Return what comes out, of the parts."""
        return [pl.col(name) for name in self.told]

    # -- for the ones below -------------------------------------------------------------------

    def _input(self, place: int = 0) -> pl.Expr:
        return pl.col(input_name(self.number, place))

    def _name(self, part: str) -> str:
        return f"_t{self.number}_{part}"


class OneValue(Accumulator):
    """A function whose parts are one value, of the type of what it reads."""

    @property
    def parts(self) -> dict[str, pl.DataType]:
        return {self._name("value"): self.kinds[0]}

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        return [self._input().alias(self._name("value"))]


def input_name(number: int, place: int) -> str:
    """Return the name of the rows' column with an input of an accumulator."""
    return f"_a{number}_{place}"


def where(call: Call, text: str) -> str:
    """Return SQL for a value that is null where FILTER leaves the row out."""
    return f"CASE WHEN {call.where} THEN {text} END" if call.where else f"({text})"


def averages(call: Call) -> bool:
    return call.function in ("avg", "mean", "try_avg")
