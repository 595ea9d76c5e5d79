"""Values bit by bit, and truth values."""

from __future__ import annotations

import polars as pl

from mainstem_operators_windows.totals.accumulator import OneValue


class Bits(OneValue):
    @property
    def once(self) -> bool:
        return self.call.function != "bit_xor"

    def merged(self) -> list[pl.Expr]:
        value = pl.col(self._name("value")).drop_nulls()
        found = {
            "bit_and": value.bitwise_and,
            "bit_or": value.bitwise_or,
            "bit_xor": value.bitwise_xor,
        }[self.call.function]()
        some = pl.col(self._name("value")).count() > 0
        return [pl.when(some).then(found).alias(self._name("value"))]


class Booleans(Bits):
    def merged(self) -> list[pl.Expr]:
        value = pl.col(self._name("value"))
        found = value.all() if self.call.function in ("bool_and", "every") else value.any()
        return [pl.when(value.count() > 0).then(found).alias(self._name("value"))]
