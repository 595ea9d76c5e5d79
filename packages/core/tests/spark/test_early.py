"""Rows whose event time is too far ahead of the clock are set apart, and move no watermark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from mainstem.plan.build import make_plan

COLUMNS = "k STRING, at TIMESTAMP"


def document(**watermark):
    return {
        "pipeline": "early",
        "trigger": {"available_now": True},
        "sources": {"lines": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        "operators": {
            "row": {
                "use": "decode", "from": "lines", "on_rejected": "drop",
                "with": {"format": "json", "schema": COLUMNS},
                "watermark": {"column": "at", "delay": "1 minute", **watermark},
            },
        },
    }  # fmt: skip


@pytest.mark.in_turn
def test_one_date_in_2099_makes_nothing_late(pipeline):
    """Pass: it comes out of `early` with its time; rows that are ahead by less, or have none, go on."""
    made = document(ahead="1 hour")
    soon = datetime.now(UTC) + timedelta(minutes=30)
    made["operators"]["copy"] = {
        "use": "select",
        "from": "row",
        "with": {"columns": {"k": "k", "at": "at"}},
    }
    made["sinks"] = {
        "out": pipeline.sink("out", "copy"),
        "early": pipeline.sink("early", "row.early"),
    }
    pipeline.document(**{k: v for k, v in made.items() if k != "pipeline"})
    rows = [
        {"k": "now", "at": "2024-01-01T00:00:00Z"},
        {"k": "far", "at": "2099-01-01T00:00:00Z"},
        {"k": "soon", "at": soon.isoformat()},
        {"k": "none"},
    ]
    pipeline.feed("1.jsonl", [json.dumps(row) for row in rows])
    summary = pipeline.run()
    assert sorted(row["k"] for row in pipeline.rows("out")) == ["none", "now", "soon"]
    assert pipeline.rows("early") == [{"k": "far", "at": "2099-01-01T00:00:00.000000Z"}]
    counts = summary["queries"]["lines"]["nodes"]["row"]
    assert counts == {"rows": 3, "rejected": 0, "early": 1}


def test_event_times_without_a_bound_are_warned_of():
    """Pass: a watermark without `ahead` is a warning that says what to write; with it there is none."""
    sinks = {"out": {"use": "console", "from": "row"}}
    for ahead, warned in (({}, 1), ({"ahead": "1 hour"}, 0)):
        found = make_plan({**document(**ahead), "sinks": sinks}).warnings
        assert sum("`ahead`" in warning for warning in found) == warned


def test_a_retried_batch_takes_the_clock_that_it_was_planned_by(pipeline):
    """Pass: what was early when a batch was planned is early when it is run again, however late that is."""
    made = document(ahead="1 hour")
    made["sinks"] = {
        "out": pipeline.sink("out", "row"),
        "early": pipeline.sink("early", "row.early"),
    }
    pipeline.document(**{k: v for k, v in made.items() if k != "pipeline"})
    soon = datetime.now(UTC) + timedelta(minutes=30)
    pipeline.feed("1.jsonl", [json.dumps({"k": "soon", "at": soon.isoformat()})])
    pipeline.run()
    assert [row["k"] for row in pipeline.rows("out")] == ["soon"]
    # As if it had been planned two hours ago, and its process had died before the commit.
    query = pipeline.plan().query_folder("lines")
    version, facts, *ends = (query / "offsets" / "0").read_text().splitlines()
    planned = json.loads(facts)
    planned["batchTimestampMs"] -= 2 * 3600 * 1000
    for record in ("offsets/.0.crc", "commits/.0.crc", "commits/0"):
        (query / record).unlink(missing_ok=True)
    (query / "offsets" / "0").write_text("\n".join([version, json.dumps(planned), *ends]))
    pipeline.run()
    assert pipeline.rows("out") == []
    assert [row["k"] for row in pipeline.rows("early")] == ["soon"]
