"""Snapshots and logs as one: random writers, chunks and kills; what comes out is the table, and every change."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from mainstem import PermanentError
from mainstem_cdc import Change, Changes, Chunk, Given, SnapshotThenLog, TablesAndLog
from mainstem_cdc.snapshots import Request

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

    def chunk(self, table: str, after: int | None, rows: int, where: str | None = None) -> Chunk:
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

    def chunk(self, table: str, after: Any, rows: int, where: str | None = None) -> Any:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def state(made: SnapshotThenLog) -> dict[str, Any]:
    """Return where all goes on, without what was asked for."""
    found = json.loads(made.cursor())
    return {name: found[name] for name in ("log", "tables", "after", "whole", "rows")}


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
    assert state(made) == {"log": 14, "tables": ["a"], "after": 3, "whole": [], "rows": 3}


def test_a_chunk_waits_until_the_log_has_come_to_its_mark() -> None:
    """Pass: nothing of it is given before, and a crash meanwhile lets it be read again."""
    source = Scripted(10, Chunk({1: "x"}, 1), 12, Changes([], 11), Changes([], 12))
    made = SnapshotThenLog(source, ["a"], None)
    assert made.take(0.0) == []
    assert json.loads(made.cursor())["after"] is None
    assert [g.content for g in made.take(0.0)] == [["x"]]


def test_tables_come_and_go_with_the_options() -> None:
    """Pass: one that is new is read from its beginning, one that was begun goes on, one that is left out is not read."""
    more = {"rows": 70, "wheres": {}, "paused": False, "asked": 0}
    cursor = json.dumps({"log": 5, "tables": ["b", "c"], "after": 7, "whole": ["a"], **more})
    made = SnapshotThenLog(Scripted(), ["a", "b", "d"], cursor)
    assert state(made) == {
        "log": 5, "tables": ["b", "d"], "after": 7, "whole": ["a"], "rows": 70,
    }  # fmt: skip
    made = SnapshotThenLog(Scripted(), ["a", "b", "d"], cursor, initial=False)
    assert json.loads(made.cursor())["tables"] == ["b"], "nobody has asked for the new one"
    made = SnapshotThenLog(Scripted(), ["a", "c"], cursor)
    assert json.loads(made.cursor())["after"] is None
    made.reload("a")
    assert state(made) == {
        "log": 5, "tables": ["c", "a"], "after": None, "whole": [], "rows": 0,
    }  # fmt: skip


def test_what_is_asked_for_is_done_once() -> None:
    """Pass: a table is read again by its condition, kept over a restart; pauses, stops; a request that was followed is
    not followed again, and one for tables that are gone does nothing."""
    source = Scripted(
        Chunk({1: "x"}, 1), 12, Changes([], 12),  # the rest of it is asked for after the restart
        Chunk({2: "y"}, 2), 13, Changes([], 13),
        Changes([], 14),
        Chunk({}, None), 15, Changes([], 15),
    )  # fmt: skip
    made = SnapshotThenLog(source, ["a", "b"], None, begin=10, initial=False)
    again = Request(5, "snapshot", ["a", "gone"], "k > 0")
    made.follow(again)
    assert made.progress == ("a", 0)
    assert [g.content for g in made.take(0.0)] == [["x"]]
    assert made.progress == ("a", 1)
    made = SnapshotThenLog(source, ["a", "b"], made.cursor(), initial=False)
    made.follow(again)
    assert state(made)["after"] == 1
    assert json.loads(made.cursor())["wheres"] == {"a": "k > 0"}
    assert [g.content for g in made.take(0.0)] == [["y"]]
    made.follow(Request(6, "pause", []))
    assert made.paused
    assert made.take(0.0) == []
    made.follow(Request(7, "stop", ["gone"]))
    made.follow(Request(8, "resume", []))
    assert made.take(0.0) == []
    assert state(made) == {"log": 15, "tables": [], "after": None, "whole": ["a"], "rows": 0}
    made.follow(Request(9, "snapshot", ["b", "a"]))
    made.follow(Request(10, "stop", ["b"]))
    assert state(made)["tables"] == ["a"]
    made.follow(Request(11, "stop", []))
    assert not made.loading
    assert made.asked == 11


def test_a_condition_that_is_wrong_ends_its_snapshot_alone() -> None:
    """Pass: it is told, and the log goes on; without a condition the error is everybody's."""
    source = Scripted(PermanentError("no such column"), Changes([], 12), PermanentError("denied"))
    made = SnapshotThenLog(source, ["a"], None, begin=10, initial=False)
    made.follow(Request(1, "snapshot", ["a"], "nonsense"))
    assert made.take(0.0) == []
    assert made.failed == "a: no such column"
    assert not made.loading
    made.reload("a")
    with pytest.raises(PermanentError):
        made.take(0.0)


def test_a_part_that_is_asked_for_leaves_nothing_of_the_table_out() -> None:
    """Pass: what was being read is read to its end, then the parts, one after the other, each from its beginning,
    over a restart; a condition that is wrong ends its own part alone, and all of the table again is all."""
    source = Scripted(
        Chunk({1: "x"}, 1), 12, Changes([], 12),
        Chunk({2: "y"}, None), 13, Changes([], 13),
        PermanentError("no such column"), Changes([], 14),
        Chunk({1: "x"}, None), 15, Changes([], 15),
    )  # fmt: skip
    made = SnapshotThenLog(source, ["a"], None, begin=10)
    assert [g.content for g in made.take(0.0)] == [["x"]]
    made.follow(Request(1, "snapshot", ["a"], "nonsense"))
    made.follow(Request(2, "snapshot", ["a"], "id < 2"))
    made = SnapshotThenLog(source, ["a"], made.cursor())
    assert state(made)["after"] == 1
    assert [g.content for g in made.take(0.0)] == [["y"]]
    assert made.take(0.0) == []
    assert made.failed == "a: no such column"
    assert made.loading
    assert [g.content for g in made.take(0.0)] == [["x"]]
    assert not made.loading
    made.follow(Request(3, "snapshot", ["a"], "id < 2"))
    made.follow(Request(4, "snapshot", ["a"], "id < 3"))
    made.follow(Request(5, "snapshot", ["a"]))
    kept = json.loads(made.cursor())
    assert (kept["tables"], kept["wheres"], kept["later"]) == (["a"], {}, {})
    made.follow(Request(6, "snapshot", ["a"], "id < 3"))
    made.follow(Request(7, "stop", ["a"]))
    assert not made.loading
