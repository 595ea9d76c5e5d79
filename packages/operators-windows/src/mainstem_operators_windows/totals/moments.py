"""Variances and correlations."""

from __future__ import annotations

import polars as pl

from mainstem_operators_windows.totals.accumulator import Accumulator, Asked


class Moments(Accumulator):
    """Variances: how many, their mean, and the sum of the squares of how far each is from it.

    What is taken back could leave more of it in the squares than the rest is, so they are not subtracted.
    """

    @classmethod
    def inputs(cls, asked: Asked) -> list[str]:
        call = asked.call
        known = " AND ".join(f"({text}) IS NOT NULL" for text in call.arguments)
        where = f"({call.where}) AND {known}" if call.where else known
        return [f"CASE WHEN {where} THEN CAST({text} AS DOUBLE) END" for text in call.arguments]

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """The inputs whose deviations are multiplied, pair by pair."""
        return [(0, 0)] if len(self.kinds) == 1 else [(0, 1), (0, 0), (1, 1)]

    @property
    def parts(self) -> dict[str, pl.DataType]:
        means = [f"mean{n}" for n, _ in enumerate(self.kinds)]
        products = [f"product{a}{b}" for a, b in self._pairs]
        return {
            self._name("n"): pl.Int64(),
            self._name("odd"): pl.Int64(),
            **{self._name(part): pl.Float64() for part in (*means, *products)},
        }

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        values = [self._input(n) for n, _ in enumerate(self.kinds)]
        known = pl.all_horizontal(value.is_not_null() for value in values)
        finite = pl.all_horizontal(value.is_finite() for value in values).fill_null(value=False)
        means = [
            pl.when(finite).then(value).otherwise(0.0).alias(self._name(f"mean{n}"))
            for n, value in enumerate(values)
        ]
        return [
            (finite.cast(pl.Int64) * weight).alias(self._name("n")),
            ((known & ~finite).cast(pl.Int64) * weight).alias(self._name("odd")),
            *means,
            *(pl.lit(0.0).alias(self._name(f"product{a}{b}")) for a, b in self._pairs),
        ]

    def merged(self) -> list[pl.Expr]:
        number = pl.col(self._name("n"))
        some = number.sum() != 0
        each = [pl.col(self._name(f"mean{n}")) for n, _ in enumerate(self.kinds)]
        means = [
            pl.when(some).then((mean * number).sum() / number.sum()).otherwise(0.0) for mean in each
        ]

        def product(a: int, b: int) -> pl.Expr:
            name = self._name(f"product{a}{b}")
            between = number * (each[a] - means[a]) * (each[b] - means[b])
            total = pl.col(name).sum() + between.sum()
            return pl.when(some).then(total).otherwise(0.0).alias(name)

        return [
            number.sum(),
            pl.col(self._name("odd")).sum(),
            *(mean.alias(self._name(f"mean{n}")) for n, mean in enumerate(means)),
            *(product(a, b) for a, b in self._pairs),
        ]

    def result(self, kind: str) -> str:
        function = self.call.function
        number, odd = self._name("n"), self._name("odd")
        first = self._name("product00" if len(self.kinds) == 1 else "product01")
        if function == "corr":
            squares = f"{self._name('product00')} * {self._name('product11')}"
            value = f"try_divide({first}, sqrt(greatest({squares}, 0D)))"
        else:
            above = first if function.startswith("covar") else f"greatest({first}, 0D)"
            less = "" if function.endswith("_pop") else " - 1"
            value = f"{above} / ({number}{less})"
            if function.startswith("std"):
                value = f"sqrt({value})"
        least = 1 if function.endswith("_pop") else 2
        return (
            f"CASE WHEN {number} + {odd} < {least} THEN NULL "
            f"WHEN {odd} > 0 THEN DOUBLE('NaN') ELSE {value} END"
        )
