"""What must know all values: lists, distinct values, percentiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import polars as pl

from mainstem_operators_windows.totals.accumulator import (
    FLOATS,
    Accumulator,
    Asked,
    averages,
    where,
)
from mainstem_operators_windows.totals.calls import Call, fractions
from mainstem_operators_windows.totals.sums import DIGITS, EXACTLY


class Values(Accumulator):
    """What must know all values: they are kept, nulls aside.

    Distinct ones are kept once each.
    """

    #: Functions for which equal values count once.
    _SETS: ClassVar[frozenset[str]] = frozenset({"collect_set"})

    @classmethod
    def inputs(cls, asked: Asked) -> list[str]:
        call = asked.call
        if call.function in ("percentile", "percentile_cont", "percentile_disc", "median"):
            return [f"CAST({where(call, call.values[0])} AS DOUBLE)"]
        if len(call.arguments) > 1:
            known = " AND ".join(f"({text}) IS NOT NULL" for text in call.arguments)
            value = f"CASE WHEN {known} THEN struct({', '.join(call.arguments)}) END"
            return [where(call, value)]
        value = call.arguments[0]
        if asked.types[0] in ("float", "double"):
            value = f"({value}) + CAST(0 AS {asked.types[0]})"  # there is one zero
        return [where(call, value)]

    @property
    def _distinct(self) -> bool:
        return self.call.distinct or self.call.function in self._SETS

    @property
    def _ordered(self) -> bool:
        return bool(self.order) and self.call.function in ("collect_list", "array_agg")

    @property
    def _kind(self) -> pl.DataType:
        if not self._ordered:
            return self.kinds[0]
        order = {f"by{n}": kind for n, kind in enumerate(self.order.values())}
        return pl.Struct({**order, "value": self.kinds[0]})

    @property
    def once(self) -> bool:
        return self._distinct

    @property
    def parts(self) -> dict[str, pl.DataType]:
        return {self._name("values"): pl.List(self._kind)}

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        value = self._input()
        if self._ordered:
            order = [pl.col(name).alias(f"by{n}") for n, name in enumerate(self.order)]
            value = pl.struct(*order, value.alias("value"))
        none = pl.lit([], pl.List(self._kind))
        one = pl.when(self._input().is_not_null()).then(pl.concat_list(value)).otherwise(none)
        return [one.alias(self._name("values"))]

    def merged(self) -> list[pl.Expr]:
        values = pl.col(self._name("values")).explode().drop_nulls()
        return [values.unique(maintain_order=True) if self._distinct else values]

    @property
    def told(self) -> dict[str, pl.DataType]:
        return {self._name("told"): self._told()}

    def _told(self) -> pl.DataType:
        function = self.call.function
        if function == "count":
            return pl.Int64()
        if function == "mode":
            return self.kinds[0]
        if function in ("collect_list", "array_agg", "collect_set"):
            return pl.List(self.kinds[0])
        if function == "sum":
            return self.kinds[0] if self.kinds[0] in FLOATS else pl.Decimal(DIGITS, self._scale)
        if averages(self.call) and isinstance(self.kinds[0], pl.Decimal):
            precision = getattr(self.kinds[0], "precision", None) or DIGITS
            return pl.Decimal(min(precision + 4, DIGITS), min(self._scale + 4, DIGITS))
        several = function == "percentile" and isinstance(fractions(self.call), list)
        return pl.List(pl.Float64()) if several else pl.Float64()

    @property
    def _scale(self) -> int:
        return getattr(self.kinds[0], "scale", 0)

    def settled(self) -> list[pl.Expr]:
        values, name = pl.col(self._name("values")), self._name("told")
        function = self.call.function
        if function == "count":
            return [values.list.len().cast(pl.Int64).alias(name)]
        if function == "collect_set":
            sortable = not isinstance(self.kinds[0], (pl.Struct, pl.List))
            return [(values.list.sort() if sortable else values).alias(name)]
        if function in ("collect_list", "array_agg"):
            if not self._ordered:
                return [values.alias(name)]
            element = pl.element()
            order = [element.struct.field(f"by{n}") for n, _ in enumerate(self.order)]
            return [values.list.eval(element.sort_by(order).struct.field("value")).alias(name)]
        kind = self._told()
        compute = _settling(self.call, kind)
        return [
            values.map_elements(lambda each: compute(each.to_list()), return_dtype=kind).alias(name)
        ]

    def result(self, kind: str) -> str:
        (only,) = self.told
        return f"CAST({only} AS {kind})" if self.call.function == "sum" else only


def _settling(call: Call, kind: pl.DataType) -> Callable[[list[Any]], Any]:
    """Return what makes the result of all values."""
    if call.function == "mode":
        return _mode
    if call.function in ("sum", "avg", "mean"):
        divide = averages(call)

        def total(values: list[Any]) -> Any:
            if not values:
                return None
            if isinstance(values[0], float):
                return math.fsum(values) / (len(values) if divide else 1)
            exact = Decimal(0)
            for value in values:
                exact = EXACTLY.add(exact, Decimal(value))
            if not divide:
                return exact
            mean = EXACTLY.divide(exact, Decimal(len(values)))
            if isinstance(kind, pl.Decimal):
                return mean.quantize(Decimal(1).scaleb(-kind.scale), context=EXACTLY)
            return float(exact) / len(values)

        return total
    wanted = fractions(call)
    discrete, down = call.function == "percentile_disc", call.descending

    def percentile(values: list[float]) -> Any:
        if not values:
            return None
        ranked = sorted(values, key=lambda value: (math.isnan(value), value))
        if down:
            ranked.reverse()
        if isinstance(wanted, list):
            return [_percentile(ranked, each, discrete=discrete) for each in wanted]
        return _percentile(ranked, wanted, discrete=discrete)

    return percentile


def _percentile(ranked: Sequence[float], fraction: float, *, discrete: bool) -> float:
    """Return a percentile as Spark does: of two neighbours each by how near it is."""
    if discrete:
        return ranked[max(math.ceil(len(ranked) * fraction) - 1, 0)]
    place = (len(ranked) - 1) * fraction
    lower, higher = math.floor(place), math.ceil(place)
    if lower == higher or ranked[lower] == ranked[higher]:
        return ranked[lower]
    return (higher - place) * ranked[lower] + (place - lower) * ranked[higher]


def _mode(values: list[Any]) -> Any:
    """Return the most frequent value, of several the least."""
    if not values:
        return None
    counts = Counter(values)
    most = max(counts.values())
    return min(value for value, number in counts.items() if number == most)
