"""What a stream-table join is to give, computed twice without any of its code.

`whole` takes all data at once, by pandas' `merge_asof`. `Model` goes batch by batch and never forgets
anything, so that it also knows what comes of rows that are later than was declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
from mainstem_keyed_state.guard import Guard
from mainstem_keyed_state.testing import Driver, micros
from mainstem_operators_joins.frames import TIME
from mainstem_operators_joins.stream_table_logic import StreamTableLogic, StreamTableSettings

Row = Mapping[str, Any]
START = datetime(2024, 5, 1, tzinfo=UTC)
MINUTE = 60_000_000

STREAM = pl.Schema({"n": pl.Int64(), "k": pl.String(), "j": pl.Int64(), "at": TIME})
TABLE = pl.Schema(
    {
        "key": pl.String(),
        "sub": pl.Int64(),
        "since": TIME,
        "price": pl.Int64(),
        "_change_type": pl.String(),
        "_commit_version": pl.Int64(),
    }
)
KEYS = {"stream": ["k", "j"], "table": ["key", "sub"]}


def minute(number: int) -> datetime:
    """Return a time by its minute."""
    return START + timedelta(minutes=number)


def event(n: int, k: str | None, at: int, j: int | None = 0) -> dict[str, Any]:
    """Return an event of a key at a minute."""
    return {"n": n, "k": k, "j": j, "at": minute(at)}


def change(
    key: str, since: int, price: int | None, sequence: int | None = None, sub: int = 0
) -> dict[str, Any]:
    """Return a change of the table; one without a price deletes the key."""
    return {
        "key": key,
        "sub": sub,
        "since": minute(since),
        "price": price,
        "_change_type": "delete" if price is None else "update_postimage",
        "_commit_version": since if sequence is None else sequence,
    }


def settings(**changed: Any) -> StreamTableSettings:
    """Return settings; what is left out is an inner join, complete, as of event time."""
    given: dict[str, Any] = {
        "as_of": "event_time",
        "when": "complete",
        "join": "inner",
        "table_key": ("key", "sub"),
        "stream_time": "at",
        "table_time": "since",
        "takes": {"price": "price"},
        "version_sequence": "version",
        "version_time": "valid_from",
    }
    return StreamTableSettings(**{**given, **changed})


class OneVersionAgo(StreamTableLogic):
    """As it was before events that wait for their time stood apart from their keys."""

    version = 1

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.tables = {name: replace(table, queued=False) for name, table in self.tables.items()}


def driver(
    chosen: StreamTableSettings,
    delays: tuple[int, int] = (0, 0),
    *,
    by: type[Any] = Driver,
    logic: type[StreamTableLogic] = StreamTableLogic,
    **more: Any,
) -> Any:
    """Return a run of a join; delays of stream and table in minutes."""
    times = {"stream": ("at", delays[0] * MINUTE), "table": ("since", delays[1] * MINUTE)}
    return by(guarded(logic(chosen, STREAM, TABLE), chosen), KEYS, times, **more)


def guarded(logic: StreamTableLogic, chosen: StreamTableSettings) -> Guard:
    """Return a join as the operator hands it over: late events and rows that lack something go by."""
    if chosen.as_of == "event_time":
        return Guard(logic, KEYS, "stream", "at")
    return Guard(logic, KEYS, None, None)


def brief(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return joined rows as (event, price, sequence and minute of the version), sorted."""
    return sorted(
        (
            (row["n"], row.get("price"), row.get("version"), _minute(row.get("valid_from")))
            for row in rows
        ),
        key=repr,
    )


def _minute(at: datetime | None) -> int | None:
    return None if at is None else (micros(at) - micros(START)) // MINUTE


def whole(
    events: Sequence[Row],
    changes: Sequence[Row],
    join: str,
    within: int | None = None,
    direction: str = "backward",
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Return the output over the whole data, and the events without a partner (inner join)."""
    keys = {"left_by": ["k", "j"], "right_by": ["key", "sub"]}
    left = pd.DataFrame([dict(row) for row in events], columns=list(STREAM))
    right = pd.DataFrame([dict(row) for row in changes], columns=list(TABLE))
    asked = left[left["k"].notna() & left["j"].notna()].astype({"k": str, "j": "int64"})
    right = right.sort_values(["since", "_commit_version"]).astype({"key": str, "sub": "int64"})
    right["price"] = right["price"].astype("Int64")
    right["version"] = right["_commit_version"].astype("Int64")
    right["valid_from"] = right["since"]
    for side, column in ((asked, "at"), (right, "since")):
        side[column] = pd.to_datetime(side[column], utc=True)
    # Of one time and key the last one holds, whichever way it is looked for.
    right = right.drop_duplicates(["key", "sub", "since"], keep="last")
    tolerance = None if within is None else timedelta(microseconds=within)
    asof = {"left_on": "at", "right_on": "since", "tolerance": tolerance, **keys}
    met = pd.merge_asof(asked.sort_values("at"), right, direction=direction, **asof)
    there = met[met["_change_type"].isin(["update_postimage"])]
    found = [
        (int(row.n), int(row.price), int(row.version), _minute(row.valid_from.to_pydatetime()))
        for row in there.itertuples()
    ]
    alone = sorted(set(left["n"]) - {row[0] for row in found})
    if join == "left":
        found += [(n, None, None, None) for n in alone]
        alone = []
    return sorted(found, key=repr), alone


class Model:
    """A join that reads batch by batch, remembers everything, and looks at every row each time."""

    def __init__(self, chosen: StreamTableSettings, delays: tuple[int, int] = (0, 0)) -> None:
        self.set = chosen
        self.delays = {"stream": delays[0] * MINUTE, "table": delays[1] * MINUTE}
        self.changes: list[Row] = []
        self.waiting: list[Row] = []
        self.joined: list[Row] = []
        self.out: list[tuple[Any, ...]] = []
        self.unmatched: list[int] = []
        self.late: list[int] = []
        self.late_changes: list[tuple[Any, ...]] = []
        self.watermark: int | None = None
        self.seen: dict[str, int] = {}

    def batch(self, rows: Mapping[str, Sequence[Row]]) -> None:
        by_time, water = self.set.as_of == "event_time", self.watermark
        for row in rows.get("table", ()):
            if self._too_late(row):
                self.late_changes.append((row["key"], row["sub"], row["_commit_version"]))
        self.changes += rows.get("table", ())
        for row in rows.get("stream", ()):
            if by_time and water is not None and micros(row["at"]) < water:
                self.late.append(row["n"])
            else:
                self.waiting.append(row)
        left = []
        for row in self.waiting:
            wait = 1 if self.set.wait is None else self.set.wait
            passed = water is not None and water >= micros(row["at"]) + wait
            version = self._version(row)
            ready = passed or row["k"] is None or row["j"] is None
            if self.set.when == "now":
                ready = ready or version is not None or self.set.wait is None
            if ready:
                self._give(row, version)
            else:
                left.append(row)
        self.waiting = left
        for port, column in (("stream", "at"), ("table", "since")):
            for row in rows.get(port, ()):
                at = micros(row[column])
                self.seen[port] = max(at, self.seen.get(port, at))
        if len(self.seen) == 2:
            reached = min(self.seen[port] - self.delays[port] for port in self.seen)
            self.watermark = reached if water is None else max(reached, water)

    def _too_late(self, row: Row) -> bool:
        key = (row["key"], row["sub"])
        if self.set.as_of == "latest":
            known = [c["_commit_version"] for c in self.changes if (c["key"], c["sub"]) == key]
            return bool(known) and row["_commit_version"] < max(known)
        if self.watermark is not None and micros(row["since"]) < self.watermark:
            return True
        if self.set.when == "complete":
            return False
        return any((e["k"], e["j"]) == key and e["at"] >= row["since"] for e in self.joined)

    def _version(self, row: Row) -> Row | None:
        known = [c for c in self.changes if (c["key"], c["sub"]) == (row["k"], row["j"])]
        if self.set.as_of == "latest":
            order = ["_commit_version"]
        else:
            known = [c for c in known if c["since"] <= row["at"]]
            order = ["since", "_commit_version"]
        return max(known, key=lambda c: [c[name] for name in order], default=None)

    def _give(self, row: Row, version: Row | None) -> None:
        self.joined.append(row)
        if version is not None and version["price"] is not None:
            since = _minute(version["since"])
            self.out.append((row["n"], version["price"], version["_commit_version"], since))
        elif self.set.join == "left":
            self.out.append((row["n"], None, None, None))
        else:
            self.unmatched.append(row["n"])
