"""One of several values: the least, the first, the one beside the greatest."""

from __future__ import annotations

import polars as pl

from mainstem_operators_windows.totals.accumulator import FLOATS, Accumulator, Asked, OneValue


class Extreme(OneValue):
    """The least, or the greatest; NaN is the greatest number."""

    rolls = True

    @property
    def once(self) -> bool:
        return True

    def merged(self) -> list[pl.Expr]:
        value = pl.col(self._name("value"))
        if self.call.function == "min":
            return [value.min()]
        return [value.nan_max() if self.kinds[0] in FLOATS else value.max()]


class First(Accumulator):
    """The first, or the last value, by the order of events."""

    @classmethod
    def inputs(cls, asked: Asked) -> list[str]:
        call = asked.call
        value = call.arguments[0]
        counts = [f"({call.where})"] if call.where else []
        counts += [f"({value}) IS NOT NULL"] if call.ignores_nulls else []
        return [f"({value})", *([f"coalesce({' AND '.join(counts)}, false)"] if counts else [])]

    @property
    def parts(self) -> dict[str, pl.DataType]:
        order = {self._name(f"by{n}"): kind for n, kind in enumerate(self.order.values())}
        return {
            self._name("value"): self.kinds[0],
            self._name("none"): pl.Boolean(),
            **order,
        }

    @property
    def told(self) -> dict[str, pl.DataType]:
        return {self._name("value"): self.kinds[0]}

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        none = ~self._input(1) if len(self.kinds) > 1 else pl.lit(value=False)
        value = pl.when(~none).then(self._input())
        return [
            value.alias(self._name("value")),
            none.alias(self._name("none")),
            *(pl.col(name).alias(self._name(f"by{n}")) for n, name in enumerate(self.order)),
        ]

    def merged(self) -> list[pl.Expr]:
        last = self.call.function in ("last", "last_value")
        value, none, *order = self.parts
        if not order:
            # Rows come in no order: what is known longer is the earlier one.
            counts = pl.col(none).eq_missing(pl.lit(value=False))
            known = [pl.col(name).filter(counts) for name in (value, none)]
            picked = [each.last() if last else each.first() for each in known]
            return [picked[0], picked[1].fill_null(value=True)]
        down = [False, *(last for _ in order)]
        return [
            pl.col(name)
            .sort_by(pl.col(none).fill_null(value=True), *order, descending=down, nulls_last=last)
            .first()
            for name in self.parts
        ]


class By(Accumulator):
    """The value beside the least, or the greatest one."""

    @property
    def once(self) -> bool:
        return True

    @property
    def parts(self) -> dict[str, pl.DataType]:
        order = {self._name(f"by{n}"): kind for n, kind in enumerate(self.order.values())}
        return {
            self._name("value"): self.kinds[0],
            self._name("beside"): self.kinds[1],
            **order,
        }

    @property
    def told(self) -> dict[str, pl.DataType]:
        return {self._name("value"): self.kinds[0]}

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        value = pl.when(self._input(1).is_not_null()).then(self._input())
        return [
            value.alias(self._name("value")),
            self._input(1).alias(self._name("beside")),
            *(pl.col(name).alias(self._name(f"by{n}")) for n, name in enumerate(self.order)),
        ]

    def merged(self) -> list[pl.Expr]:
        _, *order = self.parts
        down = [self.call.function == "max_by", *(False for _ in order[1:])]
        return [
            pl.col(name).sort_by(order, descending=down, nulls_last=True).first()
            for name in self.parts
        ]
