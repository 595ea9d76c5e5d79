"""Which accumulator does the work of which function, and for which types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from mainstem import OptionError

from mainstem_operators_windows.totals.accumulator import Accumulator, Asked, input_name
from mainstem_operators_windows.totals.bits import Bits, Booleans
from mainstem_operators_windows.totals.calls import Call
from mainstem_operators_windows.totals.extremes import By, Extreme, First
from mainstem_operators_windows.totals.moments import Moments
from mainstem_operators_windows.totals.sketches import (
    FREQUENT,
    UNSKETCHED,
    FrequentItems,
    Sketch,
    is_sketch,
)
from mainstem_operators_windows.totals.sums import Count, FloatSum, Sum
from mainstem_operators_windows.totals.value_lists import Values

_CLASSES: Mapping[str, type[Accumulator]] = {
    **dict.fromkeys(("count", "count_if"), Count),
    **dict.fromkeys(("sum", "try_sum", "avg", "mean", "try_avg"), Sum),
    **dict.fromkeys(("min", "max"), Extreme),
    **dict.fromkeys(("first", "first_value", "last", "last_value", "any_value"), First),
    **dict.fromkeys(("min_by", "max_by"), By),
    **dict.fromkeys(("std", "stddev", "stddev_samp", "stddev_pop"), Moments),
    **dict.fromkeys(("variance", "var_samp", "var_pop"), Moments),
    **dict.fromkeys(("corr", "covar_samp", "covar_pop"), Moments),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), Bits),
    **dict.fromkeys(("bool_and", "every", "bool_or", "some", "any"), Booleans),
    **dict.fromkeys(("percentile", "percentile_cont", "percentile_disc"), Values),
    **dict.fromkeys(("median", "mode", "collect_list", "array_agg", "collect_set"), Values),
    **dict.fromkeys(("approx_top_k", "approx_top_k_accumulate"), FrequentItems),
}
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "string", "decimal")
_UNORDERED = ("map", "array", "struct", "variant", "interval year", "interval month", "interval")


def inputs_of(call: Call, types: Sequence[str]) -> list[str]:
    """Return the SQL of what a call reads of a row.

    Args:
        types: Spark's types of the call's values, in DDL.

    Raises:
        OptionError: state by key can't do it for these types.
    """
    _refuse(call, types)
    return _class(call).inputs(Asked(call, types))


def accumulators_of(
    calls: Sequence[Call],
    rows: Mapping[str, pl.DataType],
    order: Mapping[str, pl.DataType],
    *,
    weighted: bool = False,
) -> list[Accumulator]:
    """Return what does the work of some calls.

    Args:
        rows: the columns of the rows, with what the calls read of each.
        order: those whose order is that of the events.
        weighted: whether rows may be taken back.
    """
    found = []
    for number, call in enumerate(calls):
        kinds: list[pl.DataType] = []
        while (name := input_name(number, len(kinds))) in rows:
            kinds.append(rows[name])
        made = _class(call)
        if made is Sum and kinds[0] == pl.Float64():
            made = FloatSum
        found.append(made(number, call, kinds, order, weighted=weighted))
    return found


def _class(call: Call) -> type[Accumulator]:
    if call.distinct:
        return Values
    return Sketch if is_sketch(call) else _CLASSES[call.function]


def _refuse(call: Call, types: Sequence[str]) -> None:
    """Refuse a call of types that state by key can't do."""
    found = _class(call)
    numeric = found in (Sum, Moments) or call.function in (
        "percentile", "percentile_cont", "percentile_disc", "median", "sum", "avg", "mean",
    )  # fmt: skip
    for kind in types:
        if numeric and kind.split("(")[0] not in _NUMBERS:
            raise _unable(call, kind)
        if found is FrequentItems and kind not in FREQUENT:
            raise _unable(call, kind)
        if found is Sketch and kind.startswith(UNSKETCHED):
            raise _unable(call, kind)
    compared = {
        Extreme: types[:1],
        By: types[1:],
        Values: types[:1] if call.distinct or call.function in ("mode", "collect_set") else [],
    }.get(found, [])
    for kind in compared:
        plain = not (call.distinct or call.function == "collect_set")
        if (plain and kind.startswith(_UNORDERED)) or "collate" in kind or kind.startswith("map"):
            raise _unable(call, kind)


def _unable(call: Call, kind: str) -> OptionError:
    return OptionError(
        f"{call.text}: {call.function} of {kind.upper()} can't be computed here",
        option="columns",
        hint="Compute a number or a text of it before, in `select`.",
    )
