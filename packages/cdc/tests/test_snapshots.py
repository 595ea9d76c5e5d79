"""Snapshots and logs as one: random writers, chunks and kills; what comes out is the table, and every change."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from mainstem_cdc import Change, Changes, Chunk, Given, SnapshotThenLog, TablesAndLog

TABLES = ("a", "b")


class Database(TablesAndLog):
    """Tables whose writers are at work whenever somebody looks, and their log.

    Args:
        seed: of the writers.
        rate: how many writes there are at most between two looks.
    """

    def __init__(self, seed: int, rate: int = 4) -> None:
        self._dice = random.Random(seed)
        self._rate = rate
        self.tables: dict[str, dict[int, int]] = {name: {} for name in TABLES}
        self.log: list[Change] = []
        self._value = 0
        for _ in range(40):
            self._write()

    def write(self) -> None:
        for _ in range(self._dice.randrange(self._rate + 1)):
            self._write()

    def _write(self) -> None:
        name = self._dice.choice(TABLES)
        table, key = self.tables[name], self._dice.randrange(30)
        self._value += 1
        if key in table and self._dice.random() < 0.3:
            del table[key]
            self._log(name, key, None)
        elif key in table and self._dice.random() < 0.3:  # a key that is changed: two changes
            del table[key]
            self._log(name, key, None)
            other = self._dice.randrange(30)
            table[other] = self._value
            self._log(name, other, self._value)
        else:
            table[key] = self._value
            self._log(name, key, self._value)

    def _log(self, name: str, key: int, value: int | None) -> None:
        self.log.append(Change(len(self.log) + 1, name, [key], (key, value)))

    def mark(self) -> int:
        self.write()
        found = len(self.log)
        self.write()
        return found

    def changes(self, after: int, seconds: float) -> Changes:
        self.write()
        found = self.log[after : after + self._dice.randrange(1, 8)]
        return Changes(found, after + len(found))

    def chunk(self, table: str, after: int | None, rows: int) -> Chunk:
        self.write()
        keys = sorted(key for key in self.tables[table] if after is None or key > after)[:rows]
        found = {key: (key, self.tables[table][key]) for key in keys}
        self.write()
        return Chunk(found, keys[-1] if keys else None)

    def stop(self) -> None:
        self._rate = 0


def taken(made: SnapshotThenLog) -> tuple[list[Given], str]:
    return made.take(0.0), made.cursor()


def course(database: Database, dice: random.Random, rows: int) -> tuple[int, list[Given]]:
    """Return where the log was at the start, and all that was stored, over kills, to the end."""
    stored: list[Given] = []
    cursor: str | None = None
    begin = None
    for _ in range(40):
        made = SnapshotThenLog(database, TABLES, cursor, rows)
        if begin is None and cursor is None:
            begin = json.loads(made.cursor())["log"]
            cursor = made.cursor()  # as a receiver stores it, before anything comes
        for _ in range(dice.randrange(1, 12)):
            found, after = taken(made)
            if dice.random() < 0.15:  # killed before it was stored
                break
            stored += found
            cursor = after
    database.stop()
    made = SnapshotThenLog(database, TABLES, cursor, rows)
    while (found := made.take(0.0)) or made.loading:
        stored += found
    assert begin is not None
    return begin, stored


@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize("seed", range(60))
def test_what_comes_out_is_the_table_and_every_change(seed: int, rows: int) -> None:
    """Pass: what was given, one after another, makes the tables as they are at the end, also when it is compared by
    position alone; each change since the beginning is there once, in order."""
    database = Database(seed, rate=seed % 5)
    begin, stored = course(database, random.Random(seed * 7 + rows), rows)
    folded: dict[str, dict[int, int]] = {name: {} for name in TABLES}
    newest: dict[tuple[str, int], tuple[int, Any]] = {}
    rows = [
        (each, *content)
        for each in stored
        for content in (each.content if each.snapshot else [each.content])
    ]
    for each, key, value in rows:
        if value is None:
            folded[each.table].pop(key, None)
        else:
            folded[each.table][key] = value
        before = newest.get((each.table, key))
        if before is None or before[0] <= each.position:
            newest[each.table, key] = (each.position, value)
    assert folded == database.tables
    by_position: dict[str, dict[int, int]] = {name: {} for name in TABLES}
    for (name, key), (_, content) in newest.items():
        if content is not None:
            by_position[name][key] = content
    assert by_position == database.tables
    changes = [each[:3] for each in stored if not each.snapshot]
    assert changes == [(c.position, c.table, c.content) for c in database.log[begin:]]


class Scripted(TablesAndLog):
    """Answers as it was told, one after another."""

    def __init__(self, *answers: Any) -> None:
        self._answers: Iterator[Any] = iter(answers)

    def mark(self) -> Any:
        return next(self._answers)

    def changes(self, after: Any, seconds: float) -> Changes:
        return next(self._answers)

    def chunk(self, table: str, after: Any, rows: int) -> Any:
        return next(self._answers)


def test_a_change_before_the_mark_supersedes_a_row() -> None:
    """Pass: the row of the changed key is not given, the other one is, at the mark and before what follows."""
    source = Scripted(
        Chunk({1: "old", 2: "two", 3: "three"}, 3), 13,
        Changes(
            [Change(11, "b", [2], "other"), Change(12, "a", [1, 3], "new"), Change(14, "a", [2], "next")], 14
        ),
    )  # fmt: skip
    made = SnapshotThenLog(source, ["a"], None, begin=10)
    assert [tuple(given) for given in made.take(0.0)] == [
        (11, "b", "other", False),
        (12, "a", "new", False),
        (13, "a", ["two"], True),
        (14, "a", "next", False),
    ]
    assert json.loads(made.cursor()) == {"log": 14, "tables": ["a"], "after": 3, "whole": []}


def test_a_chunk_waits_until_the_log_has_come_to_its_mark() -> None:
    """Pass: nothing of it is given before, and a crash meanwhile lets it be read again."""
    source = Scripted(10, Chunk({1: "x"}, 1), 12, Changes([], 11), Changes([], 12))
    made = SnapshotThenLog(source, ["a"], None)
    assert made.take(0.0) == []
    assert json.loads(made.cursor())["after"] is None
    assert [g.content for g in made.take(0.0)] == [["x"]]


def test_tables_come_and_go_with_the_options() -> None:
    """Pass: one that is new is read from its beginning, one that was begun goes on, one that is left out is not read."""
    cursor = json.dumps({"log": 5, "tables": ["b", "c"], "after": 7, "whole": ["a"]})
    made = SnapshotThenLog(Scripted(), ["a", "b", "d"], cursor)
    assert json.loads(made.cursor()) == {
        "log": 5, "tables": ["b", "d"], "after": 7, "whole": ["a"],
    }  # fmt: skip
    made = SnapshotThenLog(Scripted(), ["a", "c"], cursor)
    assert json.loads(made.cursor())["after"] is None
    made.reload("a")
    assert json.loads(made.cursor()) == {
        "log": 5, "tables": ["c", "a"], "after": None, "whole": [],
    }  # fmt: skip
