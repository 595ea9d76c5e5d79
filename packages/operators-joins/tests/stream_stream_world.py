"""Rows for stream-stream joins, cut into batches, and what a database makes of the whole of them.

All rows lie in one run, told apart by the column `c` (a case), which is part of every key. Batch `i` has
times around minute `10 * i`, as far apart as the watermark's delay allows: no row is late.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

BATCHES, CASES = 5, 40
BEFORE, AFTER = timedelta(minutes=3), timedelta(minutes=5)
DELAY = "12 minutes"
START = datetime(2026, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)

#: The rows of Kafka Streams' tables of stream-stream joins, one key, by second: the value that comes on
#: the left or on the right; None is a record with a null value.
KAFKA = [
    (1, "left", None), (2, "right", None), (3, "left", "A"), (4, "right", "a"), (5, "left", "B"),
    (6, "right", "b"), (7, "left", None), (8, "right", None), (9, "left", "C"), (10, "right", "c"),
    (11, "right", None), (12, "left", None), (13, "right", None), (14, "right", "d"), (15, "left", "D"),
]  # fmt: skip
#: The cases: Kafka's rows without the null ones, with them, and rows at the very ends of `within`.
KAFKA_CASE, NULLS_CASE, ENDS_CASE, ALONE_CASE = 1000, 1001, 1002, 1003

Row = dict[str, Any]


def random_rows(seed: int) -> dict[str, list[list[Row]]]:
    """Return each side's rows, by batch."""
    chance = random.Random(seed)
    sides: dict[str, list[list[Row]]] = {"left": [], "right": []}
    number = 0
    for batch in range(BATCHES):
        for rows in sides.values():
            made = []
            for case in range(CASES):
                for _ in range(chance.choice([0, 0, 1, 1, 2])):
                    number += 1
                    seconds = 600 * batch + chance.choice([-240, -60, 0, 0, 60, 120, 240])
                    at = START + timedelta(seconds=seconds) + chance.choice([-1, 0, 0, 1]) * MICRO
                    made.append(
                        {
                            "c": case,
                            "k": chance.choice(["a", "a", "b", None]),
                            "n": number,
                            "at": chance.choice([at] * 9 + [None]),
                        }
                    )
            rows.append(made)
    return sides


def told_rows() -> dict[str, list[Row]]:
    """Return each side's rows of the cases that are told one by one; `v` is what they are known by."""
    sides: dict[str, list[Row]] = {"left": [], "right": []}
    number = 100_000

    def add(side: str, case: int, at: datetime, v: str | None) -> None:
        nonlocal number
        number += 1
        sides[side].append({"c": case, "k": "a", "n": number, "at": at, "v": v})

    for second, side, value in KAFKA:
        at = START + timedelta(seconds=second)
        if value is not None:
            add(side, KAFKA_CASE, at, value)
        add(side, NULLS_CASE, at, value)
    add("left", ENDS_CASE, START, "A")
    for name, at in {
        "first": START - BEFORE,
        "too early": START - BEFORE - MICRO,
        "last": START + AFTER,
        "too late": START + AFTER + MICRO,
    }.items():
        add("right", ENDS_CASE, at, name)
    add("left", ALONE_CASE, START, "alone")
    return sides


def feed(folder: Path, name: str, rows: Iterable[Mapping[str, Any]], order: int) -> None:
    """Move a file of rows into a folder; Spark takes them by their times, which are given by `order`."""
    folder.mkdir(exist_ok=True)
    hidden = folder.parent / f".{folder.name}-{name}"
    lines = [
        json.dumps({**row, "at": row["at"] and row["at"].isoformat(timespec="microseconds")})
        for row in rows
    ]
    hidden.write_text("".join(line + "\n" for line in lines))
    os.utime(hidden, (1_700_000_000 + order,) * 2)
    hidden.rename(folder / name)


def oracle(left: list[Row], right: list[Row], join: str) -> list[tuple[Any, ...]]:
    """Return what DuckDB makes of all rows: pairs of `n`, null where there is no partner."""
    import duckdb
    import pandas as pd

    def table(rows: list[Row]) -> Any:
        micros = [row["at"] and round((row["at"] - START) / MICRO) for row in rows]
        columns = {name: [row[name] for row in rows] for name in "ckn"}
        return pd.DataFrame({**columns, "at": pd.array(micros, dtype="Int64")})

    lefts, rights = table(left), table(right)
    on = f"""l.c = r.c AND l.k = r.k AND r.at >= l.at - {BEFORE // MICRO}
             AND r.at <= l.at + {AFTER // MICRO}"""
    matched = f"SELECT 1 FROM rights r WHERE {on}"
    queries = {
        "semi": f"SELECT n, NULL FROM lefts l WHERE EXISTS ({matched})",
        "unmatched": f"SELECT n, NULL FROM lefts l WHERE NOT EXISTS ({matched})",
        "unmatched_right": f"""SELECT NULL, n FROM rights r
                               WHERE NOT EXISTS (SELECT 1 FROM lefts l WHERE {on})""",
    }
    query = queries.get(join, f"SELECT l.n, r.n FROM lefts l {join} JOIN rights r ON {on}")
    with duckdb.connect() as database:
        database.register("lefts", lefts)
        database.register("rights", rights)
        return ordered(database.execute(query).fetchall())


def ordered(pairs: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return pairs in one order, nulls too."""
    return sorted(pairs, key=lambda pair: [-1 if n is None else n for n in pair])
