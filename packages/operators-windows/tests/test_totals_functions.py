"""What aggregate functions give in state by key is what they give in Spark, however rows come together."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from mainstem import OptionError
from mainstem_keyed_state.arrays import to_plain
from mainstem_keyed_state.columns import polars_schema, spark_type
from mainstem_operators_windows.totals import value_lists
from mainstem_operators_windows.totals.accumulator import Accumulator
from mainstem_operators_windows.totals.calls import FUNCTIONS, read_total
from mainstem_operators_windows.totals.frames import read_columns, results, told_types
from mainstem_operators_windows.totals.functions import accumulators_of

COLUMNS = (
    "g INT, n INT, big BIGINT, small TINYINT, d DECIMAL(10,2), wide DECIMAL(38,10), x DOUBLE, y DOUBLE, "
    "f FLOAT, s STRING, b BINARY, ok BOOLEAN, day DATE, at TIMESTAMP, p STRUCT<a: INT, b: STRING>, "
    "l ARRAY<INT>"
)
ODD = [math.nan, math.inf, -math.inf, -0.0, 0.0]

#: Expressions, over rows with values of all kinds.
TOTALS = [
    "count(*)", "count(1)", "count(n)", "count(n, s)", "count(DISTINCT n)", "count(DISTINCT n, s)",
    "count(DISTINCT x)", "count(DISTINCT p)", "count(*) FILTER (WHERE n > 2)", "count_if(n > 2)",
    "count(s) FILTER (WHERE ok)",
    "sum(n)", "sum(big)", "sum(small)", "sum(d)", "sum(x)", "sum(f)", "sum(DISTINCT n)",
    "sum(DISTINCT d)", "sum(DISTINCT f)", "sum(DISTINCT cast(n AS string))", "avg(DISTINCT f)", "sum(DISTINCT x)",
    "count(DISTINCT l)", "try_sum(n)", "sum(n) FILTER (WHERE ok)", "sum(n * 2 + 1)", "sum(cast(n AS string))",
    "avg(n)", "avg(d)", "avg(x)", "mean(big)", "avg(DISTINCT n)", "avg(wide)", "try_avg(n)",
    "min(n)", "max(n)", "min(x)", "max(x)", "min(f)", "max(f)", "min(s)", "max(s)", "min(b)", "max(b)",
    "min(ok)", "max(ok)", "min(day)", "max(at)", "min(d)", "max(wide)", "max(s) FILTER (WHERE n < 3)",
    "min_by(s, y)", "max_by(s, big)", "max_by(n, y)", "min_by(p, at)", "max_by(s, d) FILTER (WHERE ok)",
    "stddev(n)", "stddev_pop(d)", "stddev_samp(y)", "std(big)", "variance(y)", "var_pop(n)",
    "var_samp(small)", "corr(n, y)", "covar_pop(n, y)", "covar_samp(y, big)", "stddev(x)",
    "var_pop(n) FILTER (WHERE ok)",
    "bit_and(n)", "bit_or(big)", "bit_xor(small)", "bool_and(ok)", "every(ok)", "bool_or(ok)",
    "some(ok)", "any(n > 3)", "bool_and(ok) FILTER (WHERE n > 2)",
    "percentile(n, 0.3)", "percentile(y, array(0.1, 0.5, 1.0))", "median(y)", "median(d)", "median(x)",
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY n)",
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY y DESC)",
    "percentile_disc(0.4) WITHIN GROUP (ORDER BY n)",
    "percentile_disc(0.4) WITHIN GROUP (ORDER BY y DESC) FILTER (WHERE ok)",
    "hll_sketch_estimate(hll_sketch_agg(n))", "hll_sketch_estimate(hll_sketch_agg(s, 10))",
    "hll_sketch_estimate(hll_sketch_agg(big) FILTER (WHERE ok))",
    "theta_sketch_estimate(theta_sketch_agg(big))", "theta_sketch_estimate(theta_sketch_agg(s))",
    "theta_sketch_estimate(theta_sketch_agg(x, 8))",
    "kll_sketch_get_n_double(kll_sketch_agg_double(y))",
    "IF(count(y) > 0, kll_sketch_get_quantile_double(kll_sketch_agg_double(y), 0.5), NULL)",
    "IF(count(f) > 0, kll_sketch_get_quantile_float(kll_sketch_agg_float(f, 100), 0.9), NULL)",
    "kll_sketch_get_n_bigint(kll_sketch_agg_bigint(big))",
    "IF(count(small) > 0, kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(small, 300), 0.5), NULL)",
    *(f"sort_array(approx_top_k({column}, 99))" for column in ("n", "big", "small", "x", "f", "s", "day", "at")),
    "sort_array(approx_top_k(n, 7, 50) FILTER (WHERE ok))",
    "sort_array(approx_top_k_estimate(approx_top_k_accumulate(s), 20))",
    "approx_top_k_accumulate(n, 100).itemDataTypeDDL", "approx_top_k(n * 2, 1)[0].count",
    "round(avg(y), 2) + count(*) * 10", "sum(n) / count(DISTINCT s)", "coalesce(max(s), 'none')",
    "concat_ws(',', 'count(*)', min(s), \"sum(n)\")", "sum(n) -- count(x)\n + 1",
]  # fmt: skip
#: Those of which Spark leaves something open: the order of lists, and which of several there is.
SORTED = [
    "collect_list(n)",
    "array_agg(s)",
    "collect_set(n)",
    "collect_set(s)",
    "collect_list(p)",
    "collect_list(l)",
    "collect_set(l)",
]
#: By the time of rows.
ORDERED = {
    "first(s)": lambda rows: rows[0]["s"],
    "last(s)": lambda rows: rows[-1]["s"],
    "first_value(n, true)": lambda rows: next((r["n"] for r in rows if r["n"] is not None), None),
    "last(n) IGNORE NULLS": lambda rows: next(
        (r["n"] for r in reversed(rows) if r["n"] is not None), None
    ),
    "last_value(s) FILTER (WHERE ok)": lambda rows: next(
        (r["s"] for r in reversed(rows) if r["ok"]), None
    ),
    "any_value(n)": lambda rows: rows[0]["n"],
    "min_by(s, n)": lambda rows: _beside(rows, least=True),
    "max_by(s, n)": lambda rows: _beside(rows, least=False),
    "collect_list(s)": lambda rows: [r["s"] for r in rows if r["s"] is not None],
    "mode(f)": lambda rows: _mode([r["f"] for r in rows if r["f"] is not None]),
    "mode(n)": lambda rows: _mode([r["n"] for r in rows if r["n"] is not None]),
}


def _beside(rows: list[dict[str, Any]], *, least: bool) -> str | None:
    known = [r for r in rows if r["n"] is not None]
    picked = (min if least else max)(known, key=lambda r: r["n"], default={"s": None})
    return picked["s"]


def _mode(values: list[int]) -> int | None:
    return min(values, key=lambda value: (-values.count(value), value)) if values else None


def rows(number: int = 240, seed: int = 7) -> list[dict[str, Any]]:
    """Return rows of groups: of many kinds, of nulls alone, of one row."""
    chance = random.Random(seed)

    def some(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    made = []
    for each in range(number):
        group = each % 6
        made.append({
            "g": group,
            "n": some(chance.randrange(6)),
            "big": some(chance.randrange(-(2**62), 2**62) // 300),
            "small": some(chance.randrange(-128, 128)),
            "d": some(Decimal(chance.randrange(-999999, 999999)).scaleb(-2)),
            "wide": some(Decimal(chance.randrange(10**26)).scaleb(-10)),
            "x": some(chance.choice(ODD) if group == 4 and chance.random() < 0.3 else chance.random()),
            "y": some(chance.gauss(100, 15)),
            "f": some(float(chance.randrange(1000)) / 8),
            "s": some(chance.choice(["a", "b", "ä", "", "zz"])),
            "b": some(bytes([chance.randrange(256)])),
            "ok": some(chance.random() < 0.5),
            "day": some(datetime(2026, 1, 1 + chance.randrange(20), tzinfo=UTC).date()),
            "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=each * 7919 % 100_000),
            "p": some({"a": chance.randrange(3), "b": chance.choice("xy")}),
            "l": some([some(chance.randrange(2)) for _ in range(chance.randrange(3))]),
        })  # fmt: skip
    empty = dict.fromkeys(made[0]) | {"g": 6, "at": made[0]["at"]}
    return [*made, empty, {**made[1], "g": 7}]


def together(accumulators: list[Accumulator], frame: pl.DataFrame, chance: random.Random) -> Any:
    """Return the parts of each group, put together from pieces of it in any order."""
    parts = [part for each in accumulators for part in each.lifted(pl.lit(1, pl.Int64()))]
    lifted = frame.sample(fraction=1.0, shuffle=True, seed=chance.randrange(99)).select("g", *parts)
    merged = [part for each in accumulators for part in each.merged()]
    while True:
        pieces = lifted.with_columns(
            pl.Series("piece", [chance.randrange(3) for _ in range(lifted.height)])
        )
        fewer = pieces.group_by("g", "piece", maintain_order=True).agg(*merged).drop("piece")
        fewer = fewer.sample(fraction=1.0, shuffle=True, seed=chance.randrange(99))
        if fewer.height == lifted.height:
            return lifted.group_by("g").agg(*merged)
        lifted = fewer


def by_key(spark: Any, frame: Any, texts: list[str], seed: int) -> dict[str, dict[int, Any]]:
    """Return what state by key gives, by total and group."""
    from pyspark.sql.types import StructField, StructType

    totals = [read_total(f"t{n}", text) for n, text in enumerate(texts)]
    calls = list(dict.fromkeys(call for total in totals for call in total.calls))
    read = frame.selectExpr("g", "at", *read_columns(calls, frame))
    kinds = polars_schema(read)
    accumulators = accumulators_of(calls, kinds, {"at": kinds["at"]})
    table = read.toArrow()
    plain = pl.DataFrame(
        {name: pl.from_arrow(to_plain(table[name].combine_chunks())) for name in table.column_names}
    )
    plain = plain.cast(dict(kinds))  # type: ignore[arg-type]
    merged = together(accumulators, plain, random.Random(seed))
    told = merged.select("g", *(part for each in accumulators for part in each.settled()))
    for each in accumulators:
        for name, kind in each.told.items():
            assert told.schema[name] == kind, (
                f"{each.call.text} gives {told.schema[name]}, not {kind}"
            )
    types = told_types(accumulators, read)
    fields = [StructField("g", spark_type(pl.Int32()))]
    for each in accumulators:
        for name, kind in each.told.items():
            fields.append(StructField(name, types.get(name) or spark_type(kind)))
    back = spark.createDataFrame([tuple(row) for row in told.rows()], StructType(fields))
    given = results(calls, accumulators, frame)
    shown = back.selectExpr("g", *(f"{total.sql(given)} AS {total.name}" for total in totals))
    return _by_group(shown, texts)


def _by_group(frame: Any, texts: list[str]) -> dict[str, dict[int, Any]]:
    kinds = frame.schema[1:]
    found: dict[str, dict[int, Any]] = {text: {} for text in texts}
    for row in frame.collect():
        for text, field, value in zip(texts, kinds, row[1:], strict=True):
            found[text][row[0]] = (field.dataType.simpleString(), value)
    return found


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame([tuple(row.values()) for row in rows()], COLUMNS)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.in_turn)])
def test_functions_give_what_they_give_in_spark(spark, frame, seed):
    """Pass: each total of each group, and its type; floating-point numbers to nine digits."""
    from pyspark.sql import functions as F  # noqa: N812

    found = by_key(spark, frame, TOTALS, seed)
    columns = [F.expr(text).alias(f"t{n}") for n, text in enumerate(TOTALS)]
    wanted = _by_group(frame.groupBy("g").agg(*columns), TOTALS)
    wrong = {
        (text, group): (each, wanted[text][group])
        for text, groups in found.items()
        for group, each in groups.items()
        if each[0] != wanted[text][group][0] or not alike(each[1], wanted[text][group][1])
    }
    assert wrong == {}


def test_lists_have_what_they_have_in_spark(spark, frame):
    """Pass: the same values, as often."""
    from pyspark.sql import functions as F  # noqa: N812

    found = by_key(spark, frame, SORTED, 3)
    columns = [F.expr(text).alias(f"t{n}") for n, text in enumerate(SORTED)]
    wanted = _by_group(frame.groupBy("g").agg(*columns), SORTED)
    for text in SORTED:
        for group, (kind, values) in found[text].items():
            assert kind == wanted[text][group][0]
            assert sorted(values, key=repr) == sorted(wanted[text][group][1], key=repr)


def test_what_spark_leaves_open_goes_by_the_time_of_rows(spark, frame):
    """Pass: first and last, lists, and the least of the most frequent."""
    found = by_key(spark, frame, list(ORDERED), 4)
    for text, expected in ORDERED.items():
        for group, (_, value) in found[text].items():
            mine = sorted((r for r in rows() if r["g"] == group), key=lambda r: r["at"])
            assert value == expected(mine), (text, group)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, math.nan, math.nan], math.nan), ([math.nan, math.nan, 1.0], math.nan), ([math.nan, 1.0], 1.0),
        ([float("nan"), float("nan"), 1.0], math.nan), ([2, 1, 2, 1, 3], 1), ([], None),
    ],
)  # fmt: skip
def test_the_most_frequent_value_with_nan(values, found):
    """Pass: NaN is one value and the greatest, in whatever order they come."""
    assert repr(value_lists._mode(values)) == repr(found)


def test_sums_of_distinct_values_that_no_double_holds():
    """Pass: infinite, or NaN, as adding them up gives; none ends the run."""
    assert math.isnan(value_lists._sum([math.inf, -math.inf]))
    assert value_lists._sum([1.7e308, 1.6e308]) == math.inf
    assert value_lists._sum([0.1] * 10) == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "hll_sketch_agg(b)",
        "theta_sketch_agg(b)",
        "theta_sketch_agg(l)",
        "sum(DISTINCT ok)",
        "avg(DISTINCT at)",
    ],
)
def test_what_can_not_be_computed_is_told_before_anything_runs(frame, text):
    """Pass: with the call and its type."""
    with pytest.raises(OptionError, match="can't be computed here"):
        read_columns(list(read_total("t", text).calls), frame)


def test_each_function_is_compared():
    """Pass: none is left out of the lists above."""
    texts = [*TOTALS, *SORTED, *ORDERED]
    used = {call.function for text in texts for call in read_total("t", text).calls}
    assert used == set(FUNCTIONS)


def test_a_sum_that_its_type_can_not_hold_is_told(spark):
    """Pass: beyond BIGINT, and beyond the 38 digits that a decimal has anywhere, the sum fails with what to
    write; try_sum gives null, and what fits is right to the last digit."""
    columns = "g INT, n INT, at TIMESTAMP, big BIGINT, wide DECIMAL(38,0)"
    at = datetime(2026, 1, 1, tzinfo=UTC)
    big, wide = 2**62, Decimal(9 * 10**37)
    made = [(0, 1, at, big, wide), (0, 2, at, big - 1, Decimal(-1))]
    made += [(1, n, at, big, wide) for n in range(3)]
    frame = spark.createDataFrame(made, columns)
    found = by_key(spark, frame, ["try_sum(big)", "try_sum(wide)"], 1)
    assert found["try_sum(big)"] == {0: ("bigint", 2**63 - 1), 1: ("bigint", None)}
    assert found["try_sum(wide)"] == {
        0: ("decimal(38,0)", Decimal(9 * 10**37 - 1)),
        1: ("decimal(38,0)", None),
    }
    with pytest.raises(Exception, match="CAST_OVERFLOW"):
        by_key(spark, frame, ["sum(big)"], 1)
    with pytest.raises(Exception, match="has more digits than DECIMAL.* holds; use try_sum"):
        by_key(spark, frame, ["sum(wide)"], 1)
