"""Windows and tables that are totalled in state by key, in documents that are run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mainstem import DocumentError
from windows_cases import Case, step

pytestmark = pytest.mark.in_turn
HOURS = {"on": "at", "tumbling": "1 hour"}
COLUMNS = {"n": "count(*)", "total": "sum(v)", "ratio": "round(sum(v) / count(DISTINCT v), 2)"}


def totals(rows: list[dict[str, Any]], *more: str) -> list[tuple[Any, ...]]:
    return [
        (r["k"], r["window_start"][11:16], r["n"], r["total"], *(r[m] for m in more)) for r in rows
    ]


def in_order(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return changes batch by batch, what was before what is."""
    new = ("insert", "update_postimage")
    return sorted(changes, key=lambda r: (r["_commit_version"], r["_change_type"] in new))


def test_another_lateness_is_served_and_another_length_refused(pipeline, spark):
    """Pass: the window that is open takes the straggler that it would not have taken."""
    options = {"by": ["k"], "window": HOURS, "columns": COLUMNS}
    case = Case(pipeline, step("aggregate", **options, lateness="0 seconds"), "node", "node.late")
    case.feed(("a", "01:05", 1), ("a", "02:05", 2))
    case.run()
    case.operators = step("aggregate", **options, lateness="20 minutes")
    case.feed(("b", "02:15", 2))  # a watermark of 02:05
    case.feed(("a", "01:15", 5))
    case.run(flush=True)
    assert sorted(totals(case.rows("node"))) == [
        ("a", "01:00", 2, 6),
        ("a", "02:00", 1, 2),
        ("b", "02:00", 1, 2),
    ]
    assert case.rows("node.late") == []
    window = {"on": "at", "tumbling": "30 minutes"}
    case.operators = step("aggregate", **options | {"window": window}, lateness="20 minutes")
    with pytest.raises(DocumentError, match="tumbling"):
        case.run()


def test_days_of_hours_with_lateness_lose_nothing(pipeline, spark):
    """Pass: a window over windows that stay open for stragglers has all of them, and nothing is late."""
    days = {"window": {"on": "window_end", "tumbling": "1 day", "start": "day", "end": "day_end"}}
    operators = step("aggregate", by=["k"], window=HOURS, columns=COLUMNS, lateness="3 hours")
    operators["days"] = {
        "use": "aggregate",
        "from": "node",
        "with": {"by": ["k"], "columns": {"n": "sum(n)", "hours": "count(*)"}, **days},
    }
    case = Case(pipeline, operators, "days", "node.late")
    hours = [(("a", f"{h:02}:30", 1), ("b", f"{max(h - 2, 0):02}:10", 1)) for h in range(24)]
    for first in range(0, 24, 6):
        case.feed(*(row for rows in hours[first : first + 6] for row in rows))
    case.run(flush=True)
    case.run(flush=True)
    assert case.rows("node.late") == []
    assert sorted((r["k"], r["n"], r["hours"]) for r in case.rows("days")) == [
        ("a", 24, 24),
        ("b", 24, 22),
    ]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        ({"sliding": "3 hours"}, [("23:00", "02:00"), ("00:00", "03:00"), ("03:00", "06:00")]),
        ({"session": "2 hours"}, [("02:00", "05:00"), ("06:00", "08:00")]),
        ({"count": 1}, [("02:00", "02:00"), ("03:00", "03:00"), ("06:00", "06:00")]),
    ],
)
def test_windows_over_the_ends_of_others_have_these_as_bounds(pipeline, spark, kind, bounds):
    """Pass: to the microsecond, where a window goes by its rows' times."""
    window = {"on": "window_end", "start": "begin", "end": "finish", **kind}
    operators = step("aggregate", by=["k"], window=HOURS, columns=COLUMNS)
    outer = {"by": ["k"], "columns": {"all": "sum(n)"}, "window": window}
    operators["outer"] = {"use": "aggregate", "from": "node", "with": outer}
    case = Case(pipeline, operators, "outer")
    case.feed(("a", "01:30", 1), ("a", "02:10", 1), ("a", "05:10", 1))
    case.run(flush=True)
    found = [(r["begin"][11:], r["finish"][11:]) for r in case.rows("outer")]
    assert sorted(found) == sorted((f"{b}:00.000000Z", f"{f}:00.000000Z") for b, f in bounds)


def test_sessions_that_merge_take_back_what_was_told(pipeline, spark):
    """Pass: after each batch the changes told make up the sessions that there are."""
    window = {"on": "at", "session": "10 minutes"}
    options = {"by": ["k"], "window": window, "columns": COLUMNS, "emit": "changes"}
    case = Case(pipeline, step("aggregate", **options), "node")
    case.feed(("a", "01:00", 1), ("a", "01:15", 2))
    case.feed(("a", "01:08", 4))
    case.feed(("a", "00:55", 8))
    case.run()
    table: dict[Any, Any] = {}
    for each in in_order(case.rows("node")):
        key = (each["k"], each["window_start"][11:16])
        if each["_change_type"] in ("delete", "update_preimage"):
            assert table.pop(key) == (each["window_end"][11:16], each["n"])
        else:
            table[key] = (each["window_end"][11:16], each["n"])
    assert table == {("a", "00:55"): ("01:25", 4)}


def test_totals_of_a_table_follow_its_rows(pipeline, spark):
    """Pass: after inserts, updates, a move to another group, deletions, copies and late changes the totals
    are those of the rows that are there; nothing that is put aside counts."""
    read = {"path": "./in", "format": "jsonlines", "max_files": 1}
    read["schema"] = "id INT, city STRING, v DECIMAL(6,2), seq INT, op STRING"
    columns = {"n": "count(*)", "mean": "avg(v)", "most": "max(v)", "names": "count(DISTINCT v)"}
    document = {
        "trigger": {"available_now": True},
        "sources": {"rows": {"use": "files", "with": read}},
        "operators": {
            "customers": {
                "use": "changelog",
                "from": "rows",
                "with": {"key": ["id"], "sequence": "seq", "delete": "op = 'd'"},
            },
            "cities": {
                "use": "aggregate",
                "from": "customers",
                "with": {"by": ["city"], "columns": columns, "emit": "changes"},
            },
        },
        "sinks": {name: pipeline.sink(name, "cities") for name in ("out",)},
    }
    batches = [
        [(1, "ulm", 1.50, 1), (2, "ulm", 2.50, 2), (3, "bonn", 9, 3)],
        [(1, "bonn", 4.00, 4), (3, "bonn", 9, 5)],
        [(2, None, None, 6, "d"), (1, "ulm", 7, 2)],
        [(4, "ulm", 3.25, 7), (3, "bonn", 8.01, 8)],
    ]
    for number, batch in enumerate(batches):
        lines = [dict(zip(("id", "city", "v", "seq", "op"), row, strict=False)) for row in batch]
        pipeline.feed(f"{number}.jsonl", [json.dumps(line) for line in lines])
    pipeline.document(**document).run()
    table: dict[str, Any] = {}
    for each in in_order(pipeline.rows("out")):
        told = (each["n"], float(each["mean"]), float(each["most"]), each["names"])
        if each["_change_type"] in ("delete", "update_preimage"):
            assert table.pop(each["city"]) == told
        else:
            table[each["city"]] = told
    assert table == {"ulm": (1, 3.25, 3.25, 1), "bonn": (2, 6.005, 8.01, 2)}
