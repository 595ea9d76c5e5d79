"""Counts, sums and averages."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import polars as pl

from mainstem_operators_windows.totals.accumulator import Accumulator, Asked, averages, where

DIGITS = 38
#: Spark's types that are added up exactly.
EXACT = ("tinyint", "smallint", "int", "bigint", "decimal")
EXACTLY = Context(prec=4 * DIGITS, rounding=ROUND_HALF_UP)


class Count(Accumulator):
    additive = rolls = True

    @classmethod
    def inputs(cls, asked: Asked) -> list[str]:
        call = asked.call
        if call.function == "count_if":
            known = [f"({call.arguments[0]})"]
        else:
            known = [f"({text}) IS NOT NULL" for text in call.arguments]
        if call.where:
            known.append(f"({call.where})")
        return [f"coalesce({' AND '.join(known)}, false)"] if known else []

    @property
    def parts(self) -> dict[str, pl.DataType]:
        return {self._name("n"): pl.Int64()}

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        counts = self._input().cast(pl.Int64) if self.kinds else pl.lit(1, pl.Int64)
        return [(counts * weight).alias(self._name("n"))]

    def merged(self) -> list[pl.Expr]:
        return [pl.col(self._name("n")).sum()]


class Sum(Accumulator):
    """Sums and averages of integers and decimals, exactly."""

    additive = rolls = True

    @classmethod
    def inputs(cls, asked: Asked) -> list[str]:
        call = asked.call
        value = where(call, call.values[0])
        return [value if asked.types[0].startswith(EXACT) else f"CAST({value} AS DOUBLE)"]

    @property
    def _scale(self) -> int:
        return getattr(self.kinds[0], "scale", 0)

    @property
    def _averages_decimals(self) -> bool:
        return averages(self.call) and isinstance(self.kinds[0], pl.Decimal)

    @property
    def parts(self) -> dict[str, pl.DataType]:
        return {
            self._name("sum"): pl.Decimal(DIGITS, self._scale),
            self._name("about"): pl.Float64(),
            self._name("n"): pl.Int64(),
        }

    @property
    def told(self) -> dict[str, pl.DataType]:
        if not self._averages_decimals:
            return self.parts
        kind = self.kinds[0]
        scale = min(self._scale + 4, DIGITS)
        digits = min((getattr(kind, "precision", None) or DIGITS) + 4, DIGITS)
        return {self._name("mean"): pl.Decimal(digits, scale)}

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        value = self._input()
        exact = value.cast(pl.Decimal(DIGITS, self._scale)) * weight.cast(pl.Int64)
        return [
            exact.alias(self._name("sum")),
            (value.cast(pl.Float64) * weight).alias(self._name("about")),
            (value.is_not_null().cast(pl.Int64) * weight).alias(self._name("n")),
        ]

    def merged(self) -> list[pl.Expr]:
        about = pl.col(self._name("about")).sum()
        limit = 10.0 ** (DIGITS - self._scale)
        # Beyond 38 digits a sum would come back as another number.
        number = pl.col(self._name("n"))
        lost = (pl.col(self._name("sum")).is_null() & (number != 0)).any()
        fits = (about.abs() < limit) & ~lost
        total = pl.when(fits).then(pl.col(self._name("sum")).sum())
        return [
            total.otherwise(None).alias(self._name("sum")),
            about,
            number.sum(),
        ]

    def settled(self) -> list[pl.Expr]:
        if not self._averages_decimals:
            return super().settled()
        ((name, kind),) = self.told.items()
        of = pl.struct(self._name("sum"), self._name("n"))
        total, number = self._name("sum"), self._name("n")
        step = Decimal(1).scaleb(-(kind.scale))  # type: ignore[attr-defined]

        def mean(row: dict[str, Any]) -> Decimal | None:
            if not row[number] or row[total] is None:
                return None
            return EXACTLY.divide(row[total], Decimal(row[number])).quantize(step, context=EXACTLY)

        return [of.map_elements(mean, return_dtype=kind).alias(name)]

    def result(self, kind: str) -> str:
        if self._averages_decimals:
            return super().result(kind)
        total, _, number = self.parts
        if averages(self.call):
            return f"IF({number} = 0, NULL, CAST({total} AS DOUBLE) / {number})"
        cast = "TRY_CAST" if self.call.function == "try_sum" else "CAST"
        missing = "NULL"
        if cast == "CAST":
            text = f"{self.call.text} has more digits than {kind.upper()} holds; use try_sum"
            missing = f"IF({total} IS NULL, raise_error('{_plain(text)}'), {total})"
            missing = f"CAST({missing} AS {kind})"
            return f"IF({number} = 0, NULL, {missing})"
        return f"IF({number} = 0, NULL, {cast}({total} AS {kind}))"


class FloatSum(Accumulator):
    """Sums and averages of floating-point numbers.

    Where rows may be taken back, what is no number and what is infinite is counted apart, for it could
    never be taken back.
    """

    additive = True

    @property
    def parts(self) -> dict[str, pl.DataType]:
        found: dict[str, pl.DataType] = {self._name("sum"): pl.Float64()}
        odd = ("nan", "above", "below") if self.weighted else ()
        return found | {self._name(part): pl.Int64() for part in ("n", *odd)}

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        value = self._input()
        number = (value.is_not_null().cast(pl.Int64) * weight).alias(self._name("n"))
        if not self.weighted:
            return [value.alias(self._name("sum")), number]
        finite = pl.when(value.is_finite()).then(value).otherwise(0.0) * weight
        odd = {"nan": value.is_nan(), "above": value == math.inf, "below": value == -math.inf}
        # NaN is greater than infinity here, and equal to itself.
        counts = [
            ((known & (value.is_nan() == (part == "nan"))).fill_null(value=False) * weight)
            .cast(pl.Int64)
            .alias(self._name(part))
            for part, known in odd.items()
        ]
        return [finite.alias(self._name("sum")), number, *counts]

    def merged(self) -> list[pl.Expr]:
        return [pl.col(name).sum() for name in self.parts]

    def result(self, kind: str) -> str:
        total, number = self._name("sum"), self._name("n")
        value = total
        if self.weighted:
            nan, above, below = (self._name(part) for part in ("nan", "above", "below"))
            value = (
                f"CASE WHEN {nan} > 0 OR ({above} > 0 AND {below} > 0) THEN DOUBLE('NaN') "
                f"WHEN {above} > 0 THEN DOUBLE('Infinity') "
                f"WHEN {below} > 0 THEN DOUBLE('-Infinity') ELSE {total} END"
            )
        if averages(self.call):
            value = f"({value}) / {number}"
        return f"IF({number} = 0, NULL, {value})"


def _plain(text: str) -> str:
    """Return a text as it can stand in quotes in SQL."""
    return text.replace("\\", "\\\\").replace("'", "\\'")
