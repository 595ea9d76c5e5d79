"""Graphs that one Spark query can't hold: each a document, equal to a plain computation."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
FAR = START + timedelta(days=30)
Row = Mapping[str, Any]


def source(schema: str) -> dict[str, Any]:
    return {
        "use": "files",
        "with": {"path": "./in", "format": "jsonlines", "schema": schema},
        "watermark": {"column": "at", "delay": "10 minutes"},
    }


def document(operators: dict[str, Any], **sources: str) -> dict[str, Any]:
    """Return a document whose last operator is written; sources by their schemas."""
    return {
        "pipeline": "relays",
        "sources": {name: source(schema) for name, schema in sources.items()},
        "operators": operators,
        "sinks": {"out": {"use": "console", "from": list(operators)[-1]}},
    }


def window(above: str, on: str, length: str, by: str = "k", **columns: str) -> dict[str, Any]:
    kind, _, size = length.partition(" ")
    made = {"on": on, kind: size, "start": "begins", "end": "ends"}
    if kind == "hopping":
        made["hopping"], made["every"] = size.split(" every ")
    given = {"by": by.split(), "window": made, "columns": columns}
    return {"use": "aggregate", "from": above, "with": given}


def changes(above: str, by: str, **columns: str) -> dict[str, Any]:
    given = {"by": [by], "columns": columns, "emit": "changes"}
    return {"use": "aggregate", "from": above, "with": given}


def hour(at: datetime, hours: int = 1) -> datetime:
    """Return the end of the window that a time is in."""
    return START + (at - START) // (hours * HOUR) * hours * HOUR + hours * HOUR


def day_of_hours(rows: list[Row]) -> Counter[Any]:
    """A window of a window: the most events that an hour has, by key and day."""
    counts = Counter((row["k"], hour(row["at"])) for row in rows)
    found: dict[Any, int] = defaultdict(int)
    for (k, ends), n in counts.items():
        # An hour that ends with the day is one of the day.
        key = (k, hour(ends - timedelta(microseconds=1), 24))
        found[key] = max(found[key], n)
    return Counter((k, ends, n) for (k, ends), n in found.items())


def two_totals(rows: list[Row]) -> Counter[Any]:
    """A join of two windowed totals: events of an hour, and the sum of what its second half brought."""
    counts = Counter((row["k"], hour(row["at"])) for row in rows)
    halves: Counter[Any] = Counter()
    for row in rows:
        half = START + (row["at"] - START) // (HOUR / 2) * (HOUR / 2) + HOUR / 2
        halves[(row["k"], half)] += row["v"]
    return Counter((k, at, n, halves[k, at]) for (k, at), n in counts.items() if (k, at) in halves)


def best_hours(rows: list[Row]) -> Counter[Any]:
    """An aggregate of an aggregate, as changes: the most that an hour of a key has brought."""
    sums: Counter[Any] = Counter()
    for row in rows:
        sums[row["k"], hour(row["at"])] += row["v"]
    found: dict[Any, int] = {}
    for (k, _), v in sums.items():
        found[k] = max(found.get(k, 0), v)
    return Counter(found.items())


def hot_keys(rows: list[Row]) -> Counter[Any]:
    """The top of windows: of each hour, taken each half hour, the most events that a key has."""
    counts: Counter[Any] = Counter()
    for row in rows:
        first = START + (row["at"] - START) // (HOUR / 2) * (HOUR / 2)
        counts[row["k"], first + HOUR / 2] += 1
        counts[row["k"], first + HOUR] += 1
    most: dict[Any, int] = {}
    for (_, ends), n in counts.items():
        most[ends] = max(most.get(ends, 0), n)
    return Counter(most.items())


def average_of_best(rows: list[Row]) -> Counter[Any]:
    """An average over maxima over a join: of each kind's auctions, what the best bid in time was."""
    auctions = {row["id"]: row for row in rows if "id" in row}
    best: dict[int, int] = {}
    for row in rows:
        auction = auctions.get(row.get("auction", -1))
        if auction and auction["at"] <= row["at"] <= auction["at"] + 2 * HOUR:
            best[row["auction"]] = max(best.get(row["auction"], 0), row["v"])
    kinds: dict[str, list[int]] = defaultdict(list)
    for number, v in best.items():
        kinds[auctions[number]["k"]].append(v)
    return Counter((k, round(sum(v) / len(v), 6)) for k, v in kinds.items())


def last_of(key: str, value: str) -> Callable[[list[dict[str, Any]]], Counter[Any]]:
    """Return what reads the last change of each key."""

    def read(rows: list[dict[str, Any]]) -> Counter[Any]:
        found: dict[Any, Any] = {}
        for row in rows:
            found[row[key]] = round(row[value], 6) if isinstance(row[value], float) else row[value]
        return Counter(found.items())

    return read


def all_of(*names: str) -> Callable[[list[dict[str, Any]]], Counter[Any]]:
    """Return what reads columns of each row; texts that are times as times."""

    def value(row: Row, name: str) -> Any:
        found = row[name]
        return datetime.fromisoformat(found) if name == "ends" else found

    return lambda rows: Counter(tuple(value(row, name) for name in names) for row in rows)


EVENTS = "k STRING, at TIMESTAMP, v INT"
SHAPES = {
    "a window of a window": (
        document(
            {
                "hours": window("rows", "at", "tumbling 1h", n="count(*)"),
                "days": window("hours", "ends", "tumbling 24h", n="max(n)"),
            },
            rows=EVENTS,
        ),
        day_of_hours,
        all_of("k", "ends", "n"),
        1,
    ),
    "a join of two windowed totals": (
        document(
            {
                "hours": window("rows", "at", "tumbling 1h", n="count(*)"),
                "halves": window("rows", "at", "tumbling 30m", s="sum(v)"),
                "both": {
                    "use": "stream_stream_join",
                    "from": {"left": "hours", "right": "halves"},
                    "with": {"on": ["k"], "within": {}, "take": ["s"]},
                },
            },
            rows=EVENTS,
        ),
        two_totals,
        all_of("k", "ends", "n", "s"),
        2,
    ),
    "an aggregate of an aggregate": (
        document(
            {
                "hours": window("rows", "at", "tumbling 1h", n="sum(v)"),
                "best": changes("hours", "k", m="max(n)"),
            },
            rows=EVENTS,
        ),
        best_hours,
        last_of("k", "m"),
        1,
    ),
    "the top of windows": (
        document(
            {
                "counts": window("rows", "at", "hopping 1h every 30m", n="count(*)"),
                "top": window("counts", "ends", "tumbling 30m", by="", m="max(n)"),
            },
            rows=EVENTS,
        ),
        hot_keys,
        all_of("ends", "m"),
        1,
    ),
    "an average over maxima over a join": (
        document(
            {
                "bid": {
                    "use": "stream_stream_join",
                    "from": {"left": "auctions", "right": "bids"},
                    "with": {
                        "on": {"id": "auction"},
                        "within": {"after": "2 hours"},
                        "take": ["v"],
                    },
                },
                "best": window("bid", "at", "tumbling 24h", by="id k", v="max(v)"),
                "kinds": changes("best", "k", a="avg(v)"),
            },
            auctions="id INT, k STRING, at TIMESTAMP",
            bids="auction INT, at TIMESTAMP, v INT",
        ),
        average_of_best,
        last_of("k", "a"),
        1,
    ),
}


def events(chance: random.Random, sources: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return some days of events in about their order, by source."""
    found = []
    for number in range(chance.randrange(60, 90)):
        at = START + timedelta(minutes=number * 25 + chance.randrange(0, 9))
        row = {"k": chance.choice("abc"), "at": at, "v": chance.randrange(1, 100)}
        if "bids" not in sources:
            found.append(("rows", row))
        elif number % 3 == 0:
            found.append(("auctions", {"id": number, "k": row["k"], "at": at}))
        else:
            auction = 3 * (number // 3) if number > 3 and chance.random() < 0.8 else 0
            found.append(("bids", {"auction": auction, "at": at, "v": row["v"]}))
    return found


def fed(row: Row) -> dict[str, Any]:
    return {name: v.isoformat() if name == "at" else v for name, v in row.items()}


@pytest.mark.in_turn
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.timeout(900)
def test_each_shape_gives_what_a_plain_computation_gives(trial, shape):
    """Pass: however the events fall into batches, over restarts, and batches that are worked on again."""
    made, expected, read, relays = SHAPES[shape]
    chance = random.Random(shape)
    run = trial(made)
    assert len(run._plan.relays) == relays
    rows = events(chance, list(made["sources"]))
    left = list(rows)
    while left:
        count = chance.randrange(15, 45)
        batch, left = left[:count], left[count:]
        for name in made["sources"]:
            if given := [fed(row) for to, row in batch if to == name]:
                run.feed(name, given)
        run.batch()
        if chance.random() < 0.4:
            run.crash()
    for name in made["sources"]:
        run.advance(name, FAR)
    run.batch()
    run.batch()
    assert read(run.rows("out")) == expected([row for _, row in rows])
