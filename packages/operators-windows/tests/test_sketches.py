"""Sketches that are put together batch by batch tell nearly what is right."""

from __future__ import annotations

import builtins
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
    (made,) = accumulators_of([call], {"_a0_0": kind}, {})
    one = pl.lit(1, pl.Int64())
    known = pl.DataFrame(schema=made.parts)
    size = len(values) // pieces
    for begin in range(0, len(values), size):
        rows = pl.DataFrame({"_a0_0": pl.Series(values[begin : begin + size], dtype=kind)})
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
