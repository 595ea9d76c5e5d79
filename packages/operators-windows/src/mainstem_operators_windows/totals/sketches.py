"""Sketches of Apache DataSketches: what they tell is nearly right, and they stay small and can be merged.

They are kept and given as Spark's own functions write them, so `hll_sketch_estimate`, `hll_union` and
their like read them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from mainstem import OptionError

from mainstem_operators_windows.totals.accumulator import Accumulator, Asked, where
from mainstem_operators_windows.totals.calls import Call, size_of

if TYPE_CHECKING:
    from types import ModuleType


def _library() -> ModuleType:
    try:
        import datasketches
    except ImportError as error:
        raise OptionError(
            "sketches need the package datasketches",
            option="columns",
            hint="pip install 'mainstem-operators-windows[sketches]'",
        ) from error
    return datasketches  # type: ignore[no-any-return]


class _Kind(ABC):
    """A kind of sketch.

    Args:
        size: what Spark's function is told of its size, or its default.
    """

    #: The size, where the function is told none.
    usual: int
    #: Whether equal values count once.
    once: bool = True
    #: What Spark makes of values before; empty for nothing.
    cast: str = ""

    def __init__(self, size: int | None) -> None:
        self.size = self.usual if size is None else size

    @abstractmethod
    def merged(self, sketches: Iterable[bytes], values: Iterable[Any]) -> bytes:
        """Return the sketch of what other sketches have seen, and of values."""


class _HyperLogLog(_Kind):
    usual = 12

    def merged(self, sketches: Iterable[bytes], values: Iterable[Any]) -> bytes:
        library = _library()
        kind = library.tgt_hll_type.HLL_8
        union, own = library.hll_union(self.size), library.hll_sketch(self.size, kind)
        for each in sketches:
            union.update(library.hll_sketch.deserialize(each))
        for value in values:
            own.update(value)
        union.update(own)
        return bytes(union.get_result(kind).serialize_updatable())


class _Theta(_Kind):
    usual = 12

    def merged(self, sketches: Iterable[bytes], values: Iterable[Any]) -> bytes:
        library = _library()
        union, own = library.theta_union(self.size), library.update_theta_sketch(self.size)
        for each in sketches:
            union.update(library.compact_theta_sketch.deserialize(each))
        for value in values:
            own.update(value)
        union.update(own)
        return bytes(union.get_result().serialize())


class _Quantiles(_Kind):
    usual = 200
    once = False
    cast = "DOUBLE"
    #: The library's class.
    made = "kll_doubles_sketch"

    def merged(self, sketches: Iterable[bytes], values: Iterable[Any]) -> bytes:
        kind = getattr(_library(), self.made)
        whole = kind(self.size)
        for value in values:
            whole.update(value)
        for each in sketches:
            whole.merge(kind.deserialize(each))
        return bytes(whole.serialize())


class _FloatQuantiles(_Quantiles):
    cast = "FLOAT"
    made = "kll_floats_sketch"


_KINDS: Mapping[str, type[_Kind]] = {
    "hll_sketch_agg": _HyperLogLog,
    "theta_sketch_agg": _Theta,
    "kll_sketch_agg_double": _Quantiles,
    "kll_sketch_agg_float": _FloatQuantiles,
}


class Sketch(Accumulator):
    """A sketch of values. New ones wait beside it, and go into it when it is merged."""

    @classmethod
    def inputs(cls, asked: Asked) -> list[str]:
        _library()  # told before anything is computed, where it is missing
        value, cast = where(asked.call, asked.call.values[0]), _KINDS[asked.call.function].cast
        return [f"CAST({value} AS {cast})" if cast else value]

    @property
    def once(self) -> bool:
        return _KINDS[self.call.function].once

    @property
    def parts(self) -> dict[str, pl.DataType]:
        return {self._name("sketch"): pl.Binary(), self._name("values"): pl.List(self.kinds[0])}

    @property
    def told(self) -> dict[str, pl.DataType]:
        return {self._name("sketch"): pl.Binary()}

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        none = pl.lit([], pl.List(self.kinds[0]))
        value = self._input()
        one = pl.when(value.is_not_null()).then(pl.concat_list(value)).otherwise(none)
        return [
            pl.lit(None, pl.Binary()).alias(self._name("sketch")),
            one.alias(self._name("values")),
        ]

    def merged(self) -> list[pl.Expr]:
        kind = _KINDS[self.call.function](size_of(self.call))

        def merge(each: Sequence[pl.Series]) -> pl.Series:
            sketches = each[0].drop_nulls().to_list()
            values = each[1].explode().drop_nulls().to_list()
            if len(sketches) == 1 and not values:
                return pl.Series(sketches, dtype=pl.Binary())
            return pl.Series([kind.merged(sketches, values)], dtype=pl.Binary())

        sketch, values = self.parts
        one = pl.map_groups(
            [pl.col(sketch), pl.col(values)], merge, return_dtype=pl.Binary(), returns_scalar=True
        )
        # A list of none, whatever there was.
        rest = pl.col(values).explode().drop_nulls().head(0)
        return [one.alias(sketch), rest.alias(values)]


def is_sketch(call: Call) -> bool:
    """Whether a call makes a sketch."""
    return call.function in _KINDS
