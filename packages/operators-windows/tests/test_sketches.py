"""Sketches that are put together batch by batch tell nearly what is right."""

from __future__ import annotations

import builtins
import re
from typing import Any

import polars as pl
import pytest
from mainstem import OptionError
from mainstem_operators_windows.totals.calls import read_total
from mainstem_operators_windows.totals.functions import accumulators_of, inputs_of

NUMBER = 20_000


def merged(text: str, kind: pl.DataType, values: list[Any], pieces: int) -> bytes:
    """Return the sketch of values that come in pieces, each merged with what is known."""
    (call,) = read_total("t", text).calls
    (made,) = accumulators_of([call], {"_a0_0": kind, "_a0_1": pl.Boolean()}, {})
    one = pl.lit(1, pl.Int64())
    known = pl.DataFrame(schema=made.parts)
    size = len(values) // pieces
    for begin in range(0, len(values), size):
        rows = pl.DataFrame({"_a0_0": pl.Series(values[begin : begin + size], dtype=kind)})
        rows = rows.with_columns(_a0_1=pl.col("_a0_0").is_null())
        both = pl.concat([known, rows.select(made.lifted(one))])
        known = both.group_by(pl.lit(1)).agg(made.merged()).select(list(made.parts))
    assert known.get_column("_t0_values").list.len().sum() == 0
    (sketch,) = known.select(made.settled()).rows()[0]
    return sketch


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hll_sketch_agg(v)", pl.Int64()),
        ("hll_sketch_agg(v, 14)", pl.String()),
        ("theta_sketch_agg(v)", pl.Int64()),
    ],
)
def test_different_values_are_counted_nearly(text, kind, pieces):
    """Pass: within a twentieth, each value there three times."""
    import datasketches

    numbers = [n % NUMBER for n in range(3 * NUMBER)]
    values = [str(n) for n in numbers] if kind == pl.String() else numbers
    sketch = merged(text, kind, values, pieces)
    kinds = {"hll": datasketches.hll_sketch, "theta": datasketches.compact_theta_sketch}
    estimate = kinds[text.partition("_")[0]].deserialize(sketch).get_estimate()
    assert estimate == pytest.approx(NUMBER, rel=0.05)


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(("text", "kind", "made"), [
    ("kll_sketch_agg_double(v)", pl.Float64(), "kll_doubles_sketch"),
    ("kll_sketch_agg_float(v, 400)", pl.Float32(), "kll_floats_sketch"),
])  # fmt: skip
def test_quantiles_are_nearly_right(text, kind, made, pieces):
    """Pass: a quartile within a fiftieth of all values."""
    import datasketches

    values = [float(n * 7919 % NUMBER) for n in range(NUMBER)]
    sketch = getattr(datasketches, made).deserialize(merged(text, kind, values, pieces))
    assert sketch.n == NUMBER
    assert sketch.get_quantile(0.25) == pytest.approx(NUMBER / 4, abs=NUMBER / 50)


@pytest.mark.parametrize("pieces", [1, 7])
def test_quartiles_of_whole_numbers_are_nearly_right(pieces):
    """Pass: within a fiftieth of all values, which are beyond what a floating-point number tells apart."""
    import datasketches

    first = 2**60
    values = [first + n * 7919 % NUMBER for n in range(NUMBER)]
    sketch = merged("kll_sketch_agg_bigint(v)", pl.Int64(), values, pieces)
    read = datasketches.kll_items_sketch.deserialize(sketch, datasketches.PyLongsSerDe())
    assert read.n == NUMBER
    assert read.get_quantile(0.25) - first == pytest.approx(NUMBER / 4, abs=NUMBER / 50)


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("kind", [pl.Int64(), pl.String()])
def test_values_that_are_often_there_are_found_among_many(spark, kind, pieces):
    """Pass: three values with a tenth each come out first, though a sketch of 100 holds few of the others."""
    often = [-1, -2, -3]
    values = [often[n % 10] if n % 10 < 3 else n for n in range(NUMBER)]
    if kind == pl.String():
        values = [str(value) for value in values]
    sketch = merged("approx_top_k_accumulate(v, 100)", kind, values, pieces)
    word = "string" if kind == pl.String() else "bigint"
    (call,) = read_total("t", "approx_top_k_accumulate(v, 100)").calls
    (made,) = accumulators_of([call], {"_a0_0": kind, "_a0_1": pl.Boolean()}, {})
    state = made.result(f"struct<sketch:binary,itemDataType:{word},itemDataTypeDDL:string>")
    rows = spark.createDataFrame([(sketch,)], "_t0_sketch BINARY")
    (found,) = rows.selectExpr(f"approx_top_k_estimate({state}, 3)").head()
    assert {int(row["item"]) for row in found} == set(often)
    assert all(row["count"] == pytest.approx(NUMBER / 10, rel=0.2) for row in found)


@pytest.mark.parametrize("kind", ["decimal(10,2)", "boolean", "timestamp_ntz", "binary"])
def test_types_that_have_no_frequent_items_here_are_refused(kind):
    """Pass: the type is told, before a row is read."""
    (call,) = read_total("t", "approx_top_k(v, 3)").calls
    with pytest.raises(OptionError, match=rf"of {re.escape(kind.upper())} can't be computed"):
        inputs_of(call, [kind])


@pytest.mark.parametrize("text", [
    "hll_sketch_agg(v, 3)", "theta_sketch_agg(v, 27)", "kll_sketch_agg_bigint(v, 7)",
    "kll_sketch_agg_double(v, 70000)", "approx_top_k_accumulate(v, 0)", "approx_top_k_accumulate(v, 1000001)",
    "approx_top_k(v, 0)", "approx_top_k(v, n)", "approx_top_k(v, -1)", "approx_top_k(v, 6, 5)", "approx_top_k(v, 5, x)",
])  # fmt: skip
def test_sizes_that_can_not_be_are_told_with_the_document(text):
    with pytest.raises(OptionError, match="number"):
        read_total("t", text)


def test_without_the_library_a_sketch_is_refused(monkeypatch):
    """Pass: the error says what to install."""

    def lacking(name, *more):
        if name == "datasketches":
            raise ImportError(name)
        return real(name, *more)

    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(OptionError, match="need the package datasketches") as caught:
        inputs_of(next(read_total("t", "hll_sketch_agg(v)").calls), ["bigint"])
    assert "mainstem-operators-windows[sketches]" in (caught.value.hint or "")
