"""Totals that are joined as a table: each hint on the way is followed, and leads to a right document."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan

ROWS = {
    "use": "files",
    "with": {"path": "./in", "format": "jsonlines", "schema": "k STRING, at TIMESTAMP, n BIGINT"},
    "watermark": {"column": "at", "delay": "1 minute", "ahead": "36500 days"},
    "on_rejected": "drop",
}
TOTALS = {
    "use": "aggregate",
    "from": "rows",
    "with": {
        "by": ["k"],
        "window": {"on": "at", "tumbling": "1 minute"},
        "columns": {"total": "sum(n)"},
    },
}
TABLE = {
    "use": "changelog",
    "from": "totals",
    "with": {"key": ["k"], "sequence": "window_start"},
    "on_rejected": "drop",
}
JOIN = {
    "use": "stream_table_join",
    "from": {"stream": "asked", "table": "table"},
    "with": {"on": ["k"], "as_of": "latest", "take": ["total"]},
    "on_rejected": "drop",
}


def document(**changes: Any) -> dict[str, Any]:
    """Return a document of questions joined with the newest final total of their key."""
    made = {
        "pipeline": "totals",
        "trigger": {"available_now": True},
        "sources": {"rows": ROWS, "asked": {**ROWS, "watermark": None}},
        "operators": {"totals": TOTALS, "table": TABLE, "joined": JOIN},
        "sinks": {"out": {"use": "console", "from": "joined"}},
    }
    made = copy.deepcopy(made)
    del made["sources"]["asked"]["watermark"]
    made["operators"] |= changes
    made["operators"] = {name: node for name, node in made["operators"].items() if node}
    return made


def refused(made: dict[str, Any]) -> str:
    with pytest.raises(DocumentError) as caught:
        make_plan(made)
    return str(caught.value)


def joined(**options: Any) -> dict[str, Any]:
    return {**JOIN, "with": {**JOIN["with"], **options}}


def test_totals_are_no_table_by_themselves():
    """Pass: final ones are events, which is one problem and no bug; changing ones are one below a relay, and
    have no sequence without it."""
    told = refused(
        document(table=None, joined={**JOIN, "from": {**JOIN["from"], "table": "totals"}})
    )
    assert told == "operators.joined.from: port 'table' takes changelog, not events (from totals)"
    changing = copy.deepcopy(TOTALS)
    changing["with"] |= {"emit": "changes"}
    del changing["with"]["window"]
    made = document(
        totals=changing, table=None, joined={**JOIN, "from": {**JOIN["from"], "table": "totals"}}
    )
    (relay,) = make_plan(made).relays
    assert "go by their batch's number" in relay.why
    made["operators"]["totals"]["relay"] = False
    told = refused(made)
    assert "have no sequence" in told
    assert (
        "`changelog` with the window's start as `sequence`, and joined with `as_of: latest`" in told
    )


@pytest.mark.in_turn
def test_totals_hold_from_the_end_of_their_window_on(trial):
    """Pass: as of event time each row gets the total of the last window that had ended by then."""
    timed = {
        **joined(as_of="event_time", join="left"),
        "from": {"stream": "rows", "table": "table"},
    }
    table = {**TABLE, "with": {"key": ["k"], "sequence": "window_end"}}
    pipeline = trial(document(table=table, joined=timed))
    times = ["00:00:10", "00:00:50", "00:01:00", "00:01:30", "00:03:10", "00:03:30"]
    for n, at in enumerate(times, 1):
        pipeline.feed("rows", [{"k": "a", "at": f"2026-01-01T{at}Z", "n": n}])
        pipeline.batch()
    pipeline.advance("rows", datetime(2026, 1, 2, tzinfo=UTC))
    pipeline.batch()
    found = sorted((row["n"], row["total"]) for row in pipeline.rows("out"))
    assert found == [(1, None), (2, None), (3, 3), (4, 3), (5, 7), (6, 7)]


@pytest.mark.in_turn
def test_the_newest_final_total_is_joined(trial):
    """Pass: a total is known once its window has ended, and replaced by that of the next."""
    pipeline = trial(document())
    pipeline.feed("rows", [{"k": "a", "at": "2026-01-01T00:00:10Z", "n": n} for n in (1, 2)])
    pipeline.batch()
    pipeline.feed("rows", [{"k": "b", "at": "2026-01-01T00:05:00Z", "n": 5}])
    pipeline.batch()
    pipeline.batch()
    pipeline.feed("asked", [{"k": "a", "n": 0}])
    pipeline.batch()
    assert [(row["k"], row["total"]) for row in pipeline.rows("out")] == [("a", 3)]
