"""The stream-table join on Spark: the same as merge_asof over the whole data, with crashes between batches."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from mainstem_testkit.pipelines import CONF
from stream_table_model import brief, change, event, minute, whole

CASES = 10


def document(**options: Any) -> dict[str, Any]:
    """A join of events with a table, both with a watermark that is three minutes behind."""
    sources = {}
    for name, columns, time in (
        ("events", "n BIGINT, k STRING, j BIGINT, at TIMESTAMP", "at"),
        (
            "rows",
            "key STRING, sub BIGINT, since TIMESTAMP, price BIGINT, seq BIGINT, gone BOOLEAN",
            "SINCE",
        ),
    ):
        given = {"path": "in", "format": "jsonlines", "schema": columns}
        watermark = {"column": time, "delay": "3 minutes"}
        sources[name] = {"use": "files", "with": given, "watermark": watermark}
    changes = {"key": ["key", "sub"], "sequence": "seq", "delete": "gone"}
    # Names of columns in other case, as Spark takes them.
    own = {"on": {"K": "key", "j": "SUB"}, "take": ["price"], **options}
    own["version"] = {"sequence": "version", "since": "valid_from"}
    ports = {"stream": "events", "table": "table"}
    return {
        "pipeline": "test",
        "spark": {"master": "local[2]", "conf": dict(CONF)},
        "sources": sources,
        "operators": {
            "table": {"use": "changelog", "from": "rows", "with": changes, "on_rejected": "drop"},
            "joined": {"use": "stream_table_join", "from": ports, "with": own},
        },
        "sinks": {"out": {"use": "console", "from": "joined"}},
    }


def fed(row: dict[str, Any]) -> dict[str, Any]:
    """Return an event or a change as the source of it has it."""
    made = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
    }
    if "_commit_version" in made:
        made["seq"], made["gone"] = (
            made.pop("_commit_version"),
            made.pop("_change_type") == "delete",
        )
    return made


def came(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return output rows with their times as times."""
    times = ("at", "valid_from")
    return [{n: _time(v) if n in times and v else v for n, v in row.items()} for row in rows]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def _case(number: int, chance: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return events and changes of keys that no other case has."""
    names, changes = [f"{number}a", f"{number}b"], {}
    for _ in range(8):
        key, since, sequence = chance.choice(names), chance.randrange(20), chance.randrange(3)
        price = chance.choice([None, *range(5)])
        changes[key, since, sequence] = change(key, since, price, sequence)
    events = [
        event(100 * number + n, chance.choice([*names, None]), chance.randrange(20))
        for n in range(8)
    ]
    return events, [*changes.values(), *list(changes.values())[:2]]


def _arriving(
    rows: list[dict[str, Any]], column: str, chance: random.Random
) -> list[dict[str, Any]]:
    """Return rows in an order in which none is later than three minutes allow."""
    return sorted(rows, key=lambda row: row[column].timestamp() + chance.randrange(180))


@pytest.mark.in_turn
def test_a_complete_join_of_random_data_equals_merge_asof_with_crashes_between(trial):
    """Pass: ten cases of random events and changes at once; each output row, and each event unmatched."""
    chance = random.Random(11)
    events, changes = [], []
    for number in range(CASES):
        more = _case(number, chance)
        events += more[0]
        changes += more[1]
    expected, alone = whole(events, changes, "inner")
    assert len(expected) > CASES
    assert len(alone) > CASES
    run = trial(document(), "joined", "joined.unmatched", "joined.late", "joined.late_changes")
    lines = {"events": _arriving(events, "at", chance), "rows": _arriving(changes, "since", chance)}
    for part in range(4):
        for source, rows in lines.items():
            # The one side runs ahead of the other, in turn.
            ends = [0, 0.1, 0.6, 0.7, 1] if source == "events" else [0, 0.5, 0.55, 0.9, 1]
            begin, end = (int(len(rows) * ends[part + step]) for step in (0, 1))
            run.feed(source, [fed(row) for row in rows[begin:end]])
        run.batch()
        run.crash()
    for source in lines:
        run.advance(source, minute(10_000))
    run.batch()
    assert brief(came(run.rows("joined"))) == expected
    assert sorted(row["n"] for row in run.rows("joined.unmatched")) == alone
    assert run.rows("joined.late") == []
    assert run.rows("joined.late_changes") == []


@pytest.mark.in_turn
def test_a_table_with_preimages_late_rows_and_rows_that_lack_something(trial):
    """Pass: a deletion holds from its own time, not from that of the row it carries; each row at its output,
    with the types of its own side, though the other has a column of that name, and fields of any name."""
    made = document(take={"price": "price", "labels": "tags", "parts": "part"})
    made["sources"]["rows"]["with"]["schema"] += ", tags MAP<STRING, INT>, part STRUCT<`a-b`: INT>"
    made["sources"]["events"]["with"]["schema"] += ", tags ARRAY<STRUCT<key: STRING, value: INT>>"
    table = {"key": ["key", "sub"], "sequence": "seq", "delete": "gone"}
    made["operators"]["table"] = {"use": "table", "from": "rows", "with": table}
    outputs = [
        "joined.unmatched",
        "joined.late",
        "joined.late_changes",
        "joined.rejected",
    ]
    run = trial(made, "joined", *outputs)
    run.feed(
        "rows",
        [
            {**fed(change("a", 1, 5, 1)), "tags": {"x": 1}, "part": {"a-b": 7}},
            fed(change("a", 10, None, 2)),
        ],
    )
    run.feed(
        "events",
        [fed(event(1, "a", 5)), fed(event(2, "a", 12)), {**fed(event(3, "a", 5)), "at": None}],
    )
    run.batch()
    for source in ("events", "rows"):
        run.advance(source, minute(60))
    run.batch()
    run.feed("rows", [{**fed(change("a", 20, 6, 3)), "tags": {"y": 2}}, fed(change("a", 3, 9, 1))])
    run.feed("events", [fed(event(4, "a", 30)), fed(event(5, "a", 70))])
    run.batch()
    for source in ("events", "rows"):
        run.advance(source, minute(100))
    run.batch()
    assert brief(came(run.rows("joined"))) == [(1, 5, 1, 1), (5, 6, 3, 20)]
    assert [row["labels"] for row in run.rows("joined") if row["n"] == 1] == [{"x": 1}]
    assert [row["n"] for row in run.rows("joined.unmatched")] == [2]
    assert [row["n"] for row in run.rows("joined.late")] == [4]
    assert [row["parts"] for row in run.rows("joined") if row["n"] == 1] == [{"a-b": 7}]
    assert [(row["price"], row["tags"]) for row in run.rows("joined.late_changes")] == [
        (6, {"y": 2})
    ]
    assert [row["reason"] for row in run.rows("joined.rejected")] == ["at is null"]
