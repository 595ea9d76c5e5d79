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
from mainstem_operators_windows.totals.sums import DIGITS, EXACT, EXACTLY


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
        value, kind = call.arguments[0], asked.types[0]
        if (call.function == "sum" or averages(call)) and not kind.startswith(EXACT):
            value, kind = f"CAST({value} AS DOUBLE)", "double"
        if kind in ("float", "double"):
            value = f"({value}) + CAST(0 AS {kind})"  # there is one zero
        return [where(call, value)]

    @property
    def _distinct(self) -> bool:
        return self.call.distinct or self.call.function in self._SETS

    @property
    def _ordered(self) -> bool:
        return bool(self.order) and self.call.function in ("collect_list", "array_agg")

    @property
    def _boxed(self) -> bool:
        """Whether values are kept in structs: with their order, or since a list would be many values."""
        return self._ordered or isinstance(self.kinds[0], pl.List)

    @property
    def _kind(self) -> pl.DataType:
        if not self._boxed:
            return self.kinds[0]
        order = enumerate(self.order.values() if self._ordered else ())
        return pl.Struct({**{f"by{n}": kind for n, kind in order}, "value": self.kinds[0]})

    @property
    def once(self) -> bool:
        return self._distinct

    @property
    def parts(self) -> dict[str, pl.DataType]:
        return {self._name("values"): pl.List(self._kind)}

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        value = self._input()
        if self._boxed:
            order = enumerate(self.order if self._ordered else ())
            value = pl.struct(
                *(pl.col(name).alias(f"by{n}") for n, name in order), value.alias("value")
            )
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
            return pl.Float64() if self.kinds[0] in FLOATS else self.kinds[0]
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
        if function in ("collect_set", "collect_list", "array_agg"):
            element = pl.element()
            if self._ordered:
                element = element.sort_by(
                    [element.struct.field(f"by{n}") for n, _ in enumerate(self.order)]
                )
            if self._boxed:
                values = values.list.eval(element.struct.field("value"))
            elif function == "collect_set" and not isinstance(self.kinds[0], pl.Struct):
                values = values.list.sort()
            return [values.alias(name)]
        kind = self._told()
        compute = _settling(self.call, kind)
        return [
            values.map_elements(lambda each: compute(each.to_list()), return_dtype=kind).alias(name)
        ]

    def result(self, kind: str) -> str:
        (only,) = self.told
        return f"CAST({only} AS {kind})" if self.call.function in ("sum", "mode") else only


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
                return _sum(values) / (len(values) if divide else 1)
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


def _sum(values: list[float]) -> float:
    """Return a sum: rounded once, where it is finite."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # beyond all doubles, or infinite both ways
        return sum(values)


def _mode(values: list[Any]) -> Any:
    """Return the most frequent value, of several the least; NaN is the greatest number, and one value."""
    if not values:
        return None
    counts = Counter(math.nan if value != value else value for value in values)
    most = max(counts.values())
    found = [value for value, number in counts.items() if number == most]
    return min(found, key=lambda value: (value != value, value))
