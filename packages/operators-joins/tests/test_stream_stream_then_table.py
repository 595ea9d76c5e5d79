"""Rows that an interval join lets out are joined with a table, however late it lets them out."""

from __future__ import annotations

import pytest

SOURCES = {
    "shown": ("n BIGINT, k STRING, at TIMESTAMP", "at"),
    "click": ("ref BIGINT, hit TIMESTAMP", "hit"),
    "level": ("k STRING, since TIMESTAMP, level INT", "since"),
}


def document(join):
    matched = {
        "on": {"n": "ref"},
        "within": {"after": "1 minute"},
        "join": join,
        "take": ["hit"],
    }
    return {
        "pipeline": "test",
        "trigger": {"available_now": True},
        "sources": {
            name: {
                "use": "files",
                "with": {"path": "./in", "format": "jsonlines", "schema": schema},
                "watermark": {"column": column, "delay": "1 second"},
            }
            for name, (schema, column) in SOURCES.items()
        },
        "operators": {
            "matched": {
                "use": "stream_stream_join",
                "from": {"left": "shown", "right": "click"},
                "with": matched,
            },
            "levels": {
                "use": "changelog",
                "from": "level",
                "with": {"key": ["k"], "sequence": "since"},
                "on_rejected": "drop",
            },
            "joined": {
                "use": "stream_table_join",
                "from": {"stream": "matched", "table": "levels"},
                "with": {"on": ["k"], "join": "left", "take": ["level"]},
                "on_rejected": "drop",
            },
        },
        "sinks": {"out": {"use": "console", "from": "joined"}},
    }


def at(minute, second=0):
    return f"2026-01-01T{minute // 60:02}:{minute % 60:02}:{second:02}Z"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("join", ["left", pytest.param("inner", marks=pytest.mark.slow)])
@pytest.mark.in_turn
def test_no_row_that_a_join_lets_out_is_late_for_the_next(trial, join):
    """Every third event has a hit, at the last moment of its minute; the others come out without one when time has
    passed, far beyond them. Pass: each with the level of its time, none in `late`."""
    made = trial(document(join), "joined.late")
    made.feed("level", [{"k": "a", "since": at(m), "level": m} for m in range(0, 20, 5)])
    made.feed("shown", [{"n": n, "k": "a", "at": at(n)} for n in range(20)])
    made.batch()
    made.feed("click", [{"ref": n, "hit": at(n + 1)} for n in range(0, 20, 3)])
    made.batch()
    for minute in (60, 120, 180):
        made.feed("level", [{"k": "z", "since": at(minute), "level": 0}])
        made.feed("shown", [{"n": -minute, "k": "z", "at": at(minute)}])
        made.feed("click", [{"ref": 1000, "hit": at(minute)}])
        made.batch()
    assert made.rows("joined.late") == []
    found = {
        r["n"]: (r["level"], r.get("hit") is not None) for r in made.rows("out") if r["n"] >= 0
    }
    expected = {n: (n - n % 5, n % 3 == 0) for n in range(20) if join == "left" or n % 3 == 0}
    assert found == expected
