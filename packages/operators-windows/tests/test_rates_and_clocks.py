"""`rates` and `clock` without Spark: against plain computations, for any rows, batches and restarts."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem_keyed_state.testing import Driver, Paged, cut, micros
from mainstem_keyed_state.times import TIME
from mainstem_operators_windows.clock_logic import ClockLogic
from mainstem_operators_windows.rates_logic import RatesLogic

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND, MICRO = timedelta(seconds=1), timedelta(microseconds=1)
HALF = 60 * SECOND
FAR = micros(START + timedelta(days=400))
COLUMNS = pl.Schema({"k": pl.String(), "at": TIME, "_id": pl.Binary(), "v": pl.Float64()})
TOLD = {"r": "rate", "m": "mean", "d": "deviation", "z": "zscore"}

#: Rows as (key, second, value, batch's end after it).
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 600),
        st.one_of(st.none(), st.floats(-100, 100)),
        st.booleans(),
    ),
    max_size=25,
)


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with what is told of each, of all before it one by one."""
    found = []
    for each in rows:
        before = [r for r in rows[: len(found)] if r["k"] == each["k"]]
        weights = [0.5 ** ((each["at"] - r["at"]) / HALF) for r in before]
        rate = sum(weights) * math.log(2) / HALF.total_seconds()
        known = [(w, r["v"]) for w, r in zip(weights, before, strict=True) if r["v"] is not None]
        told = {"r": rate, "m": None, "d": None, "z": None}
        if known:
            total = sum(w for w, _ in known)
            told["m"] = sum(w * v for w, v in known) / total
            told["d"] = math.sqrt(sum(w * (v - told["m"]) ** 2 for w, v in known) / total)
            if each["v"] is not None and told["d"] > 1e-3:
                told["z"] = (each["v"] - told["m"]) / told["d"]
        found.append({**each, **told})
    return found


@pytest.mark.parametrize("kind", [Driver, Paged])
@settings(deadline=None, max_examples=15)
@given(rows=ROWS)
def test_rates_are_those_of_the_rows_before(kind, rows):
    """Pass: each row on time once, in its order, with the rate, the mean and how unusual it was."""
    logic = RatesLogic(COLUMNS, time="at", value="v", half_life=HALF // MICRO, columns=TOLD)
    driver = kind(logic, {"input": ["k"]}, {"input": ("at", 100 * SECOND // MICRO)}, pages=2)
    made = [
        {"k": k, "at": START + s * SECOND, "_id": n.to_bytes(2, "big"), "v": v}
        for n, (k, s, v, _) in enumerate(rows)
    ]
    on_time = []
    for batch in cut(made, [n + 1 for n, each in enumerate(rows) if each[3]]):
        mark = driver.watermark
        taken = [r for r in batch if mark is None or micros(r["at"]) >= mark]
        on_time += taken
        driver.batch({"input": taken})
        driver.restart()
    driver.advance(FAR)
    wanted = plain(sorted(on_time, key=lambda r: (r["at"], r["_id"])))
    found = {each["_id"]: each for each in driver.outputs[""]}
    assert len(found) == len(driver.outputs[""]) == len(wanted)
    for each in wanted:
        told = found[each["_id"]]
        for name in ("r", "m"):
            assert told[name] == pytest.approx(each[name], abs=1e-6), name
        assert (told["d"] is None) == (each["d"] is None)
        if each["d"] is not None:
            assert told["d"] == pytest.approx(each["d"], abs=1e-4)
        if each["z"] is not None:
            assert told["z"] == pytest.approx(each["z"], rel=1e-3, abs=1e-3)
    assert driver.rows("kept") == []


def rated(rows, cuts=()):
    """Return what is told of rows of one key, (second, value), with a half-life of a second."""
    logic = RatesLogic(COLUMNS, time="at", value="v", half_life=SECOND // MICRO, columns=TOLD)
    driver = Driver(logic, {"input": ["k"]}, {"input": ("at", 0)})
    made = [
        {"k": "a", "at": START + s * SECOND, "_id": n.to_bytes(2, "big"), "v": v}
        for n, (s, v) in enumerate(rows)
    ]
    for batch in cut(made, list(cuts)):
        driver.batch({"input": batch})
    driver.advance(FAR)
    return [tuple(each[name] for name in TOLD) for each in driver.outputs[""]]


@pytest.mark.parametrize("away", [59, 60, 61, 100])
def test_what_is_forgotten_does_not_hang_on_how_batches_are_cut(away):
    """Pass: sixty half-lives later nothing is known, also where the rows came in one batch."""
    rows = [(0, 10.0), (1, 20.0), (1 + away, 30.0), (2 + away, 31.0)]
    together, apart = rated(rows), rated(rows, cuts=[1, 2, 3])
    assert together == apart
    assert (together[2][1] is None) == (away >= 60)


def test_a_value_beyond_what_can_be_squared_is_no_value():
    """Pass: it leaves no deviation behind that nothing could ever bring back."""
    calm = [(n, float(n % 3)) for n in range(3, 200)]
    (*_, last) = rated([(0, 1.0), (1, 2.0), (2, 1e200), *calm])
    assert 0.1 < last[2] < 2
    assert math.isfinite(last[3])


def test_a_steady_stream_has_its_rate():
    """Pass: ten events a second for a long time are ten a second."""
    logic = RatesLogic(
        COLUMNS, time="at", value="v", half_life=5 * SECOND // MICRO, columns={"r": "rate"}
    )
    driver = Driver(logic, {"input": ["k"]}, {"input": ("at", 0)})
    driver.batch(
        {
            "input": [
                {"k": "a", "at": START + n * SECOND / 10, "_id": n.to_bytes(2, "big")}
                for n in range(1000)
            ]
        }
    )
    driver.advance(FAR)
    assert driver.outputs[""][-1]["r"] == pytest.approx(10, rel=0.01)


DEVICES = pl.Schema({"k": pl.String(), "event": TIME, "sent": TIME, "received": TIME})


def reading(key: str, second: float, offset: float, waited: float = 5.0) -> dict[str, Any]:
    """Return a reading that is sent some seconds after it was made, by a clock that is so far behind."""
    sent = START + (second - offset) * SECOND
    return {
        "k": key,
        "event": sent - waited * SECOND,
        "sent": sent,
        "received": START + second * SECOND,
    }


def clock(half_life: timedelta | None) -> ClockLogic:
    return ClockLogic(
        DEVICES,
        event="event",
        sent="sent",
        received="received",
        half_life=None if half_life is None else half_life // MICRO,
        corrected="corrected",
        offset="offset_ms",
    )


def test_events_of_wrong_clocks_are_when_they_were():
    """Pass: a clock a day ahead and one an hour behind tell the same as one that is right."""
    driver = Driver(clock(None), {"input": ["k"]})
    for offset, key in ((-86_400, "ahead"), (3_600, "behind"), (0, "right")):
        driver.batch({"input": [reading(key, second, offset) for second in (10, 20, 30)]})
    for each in driver.outputs[""]:
        assert each["corrected"] == each["received"] - 5 * SECOND
    offsets = {each["k"]: each["offset_ms"] for each in driver.outputs[""]}
    assert offsets == {"ahead": -86_400_000, "behind": 3_600_000, "right": 0}


@pytest.mark.parametrize("kind", [Driver, Paged])
def test_an_offset_is_smoothed_over_batches_and_restarts(kind):
    """Pass: after a half-life an offset counts half; however rows are cut, it is the same."""
    rows = [reading("a", 0, 10), reading("a", 60, 20), reading("a", 120, 20), reading("b", 60, 4)]
    wanted = [("a", 10_000), ("a", 15_000), ("a", 17_500), ("b", 4_000)]
    for batches in ([rows], [[row] for row in rows]):
        driver = kind(clock(HALF), {"input": ["k"]})
        for batch in batches:
            driver.batch({"input": batch})
            driver.restart()
        found = sorted((r["k"], r["offset_ms"]) for r in driver.outputs[""])
        assert found == wanted
