"""Sketches of Apache DataSketches: what they tell is nearly right, and they stay small and can be merged.

They are kept and given as Spark's own functions write them, so `hll_sketch_estimate`, `hll_union` and
their like read them.
"""

from __future__ import annotations

import math
import re
import struct
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl
from mainstem import OptionError

from mainstem_operators_windows.totals.accumulator import Accumulator, Asked, where
from mainstem_operators_windows.totals.calls import Call, most_frequent, size_of

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
        kind, writing = getattr(_library(), self.made), self._writing()
        whole = kind(self.size)
        for value in values:
            whole.update(value)
        for each in sketches:
            whole.merge(kind.deserialize(each, *writing))
        return bytes(whole.serialize(*writing))

    def _writing(self) -> tuple[Any, ...]:
        """Return what the library needs beside a sketch, to write its values."""
        return ()


class _FloatQuantiles(_Quantiles):
    cast = "FLOAT"
    made = "kll_floats_sketch"


class _IntegerQuantiles(_Quantiles):
    cast = "BIGINT"
    made = "kll_items_sketch"

    def _writing(self) -> tuple[Any, ...]:
        return (_library().PyLongsSerDe(),)


#: Spark's types that the library's sketches do not take as Spark's do.
UNSKETCHED = ("binary", "array")

_KINDS: Mapping[str, type[_Kind]] = {
    "hll_sketch_agg": _HyperLogLog,
    "theta_sketch_agg": _Theta,
    "kll_sketch_agg_double": _Quantiles,
    "kll_sketch_agg_float": _FloatQuantiles,
    "kll_sketch_agg_bigint": _IntegerQuantiles,
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


#: By the type of a column, how an item of it is written: what stands before it, and its number.
_WRITTEN: Mapping[pl.DataType, tuple[bytes, str]] = {
    pl.Int64(): (b"", "<q"),
    pl.Int32(): (b"\x09", "<i"),
    pl.Int16(): (b"\x03", "<h"),
    pl.Int8(): (b"\x02", "<b"),
    pl.Float64(): (b"", "<d"),
    pl.Float32(): (b"\x06", "<f"),
    pl.Date(): (b"\x09", "<i"),
}
#: Spark's types that have them.
FREQUENT = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "date",
    "timestamp",
    "string",
)


class FrequentItems(Accumulator):
    """The values that are there most often, nearly: `approx_top_k`, and the state that it is made of.

    Spark writes how many nulls there were behind the library's sketch.
    """

    @classmethod
    def inputs(cls, asked: Asked) -> list[str]:
        _library()
        value = asked.call.values[0]
        return [where(asked.call, value), where(asked.call, f"isnull({value})")]

    @property
    def parts(self) -> dict[str, pl.DataType]:
        return {
            self._name("sketch"): pl.Binary(),
            self._name("values"): pl.List(self.kinds[0]),
            self._name("nulls"): pl.Int64(),
        }

    @property
    def told(self) -> dict[str, pl.DataType]:
        return {self._name("sketch"): pl.Binary()}

    @property
    def _most(self) -> int:
        """How many items are kept account of."""
        size = size_of(self.call)
        return 10_000 if size is None else size

    def lifted(self, weight: pl.Expr) -> list[pl.Expr]:
        sketch, values, nulls = self.parts
        none, value = pl.lit([], pl.List(self.kinds[0])), self._input()
        one = pl.when(value.is_not_null()).then(pl.concat_list(value)).otherwise(none)
        return [
            pl.lit(None, pl.Binary()).alias(sketch),
            one.alias(values),
            self._input(1).fill_null(value=False).cast(pl.Int64()).alias(nulls),
        ]

    def merged(self) -> list[pl.Expr]:
        sketch, values, nulls = self.parts
        one = pl.map_groups(
            [pl.col(sketch), pl.col(values)],
            self._merge,
            return_dtype=pl.Binary(),
            returns_scalar=True,
        )
        rest = pl.col(values).explode().drop_nulls().head(0)
        return [one.alias(sketch), rest.alias(values), pl.col(nulls).sum()]

    def _merge(self, each: Sequence[pl.Series]) -> pl.Series:
        library, (written, writing) = _library(), _items(self.kinds[0])
        values = each[1].explode().drop_nulls().to_physical()
        whole = library.frequent_items_sketch(_log_size(self._most))
        for other in each[0].drop_nulls():
            whole.merge(library.frequent_items_sketch.deserialize(other, writing))
        for item, count in Counter(map(written, values)).items():
            whole.update(item, count)
        return pl.Series([bytes(whole.serialize(writing))], dtype=pl.Binary())

    def settled(self) -> list[pl.Expr]:
        sketch, _, nulls = self.parts

        def whole(row: dict[str, Any]) -> bytes:
            return row[sketch] + row[nulls].to_bytes(8, "big")  # type: ignore[no-any-return]

        return [
            pl.struct(sketch, nulls).map_elements(whole, return_dtype=pl.Binary()).alias(sketch)
        ]

    def result(self, kind: str) -> str:
        (sketch,) = self.told
        found = re.search(r"item:(.*),count:|itemDataType:(.*),itemDataTypeDDL:", kind)
        item = next(each for each in found.groups() if each) if found else ""
        column = f"item {item} not null"
        column = column if item == "string" else column.upper().replace("ITEM", "item")
        state = (
            f"named_struct('sketch', {sketch}, 'maxItemsTracked', {self._most}, 'itemDataType', "
            f"CAST(NULL AS {item}), 'itemDataTypeDDL', '{column}')"
        )
        if self.call.function == "approx_top_k_accumulate":
            return state
        return f"approx_top_k_estimate({state}, {most_frequent(self.call)})"


def _log_size(most: int) -> int:
    """Return the size of the map that holds so many items, as its power of two."""
    return max(3, math.ceil(math.log2(math.ceil(most / 0.75))))


@cache
def _items(kind: pl.DataType) -> tuple[Callable[[Any], bytes], Any]:
    """Return how Spark writes an item of a type, and what the library needs to keep it as that.

    Items are kept as they are written: so a NaN equals another one.
    """
    # Times are whole numbers, of microseconds.
    before, form = _WRITTEN.get(kind, _WRITTEN[pl.Int64()])
    fixed = len(before) + struct.calcsize(form)

    def number(item: Any) -> bytes:
        return before + struct.pack(form, item)

    def text(item: str) -> bytes:
        return struct.pack("<i", len(item.encode())) + item.encode()

    class Written(_library().PyObjectSerDe):  # type: ignore[misc]
        def get_size(self, item: bytes) -> int:
            return len(item)

        def to_bytes(self, item: bytes) -> bytes:
            return item

        def from_bytes(self, data: bytes, offset: int) -> tuple[bytes, int]:
            size = fixed
            if kind == pl.String():
                size = 4 + struct.unpack_from("<i", data, offset)[0]
            return data[offset : offset + size], size

    return text if kind == pl.String() else number, Written()


def is_sketch(call: Call) -> bool:
    """Whether a call makes a sketch."""
    return call.function in _KINDS
