"""A batch that has nothing but control rows on one side of a join keeps the other side's rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytestmark = pytest.mark.usefixtures("looking")


def source(schema, time):
    options = {"path": "in", "format": "jsonlines", "schema": schema}
    watermark = {"column": time, "delay": "1 hour"}
    return {"use": "files", "with": options, "watermark": watermark}


def test_a_row_that_comes_with_a_control_row_of_the_other_side_is_kept(trial):
    """Pass: rows of a pair that come in two batches, each with only a control row opposite, are joined."""
    sources = {
        "left": source("k INT, at TIMESTAMP", "at"),
        "right": source("j INT, seen TIMESTAMP", "seen"),
    }
    joined = {"use": "pairs", "from": {"left": "left", "right": "right"}}
    document = {
        "pipeline": "test",
        "sources": sources,
        "operators": {"joined": joined},
        "sinks": {"out": {"use": "console", "from": "joined"}},
    }
    run = trial(document)
    early = datetime(2026, 1, 1, 9, tzinfo=UTC)
    run.feed("left", [{"k": 1, "at": "2026-01-01T12:00:00Z"}])
    run.advance("right", early)
    run.batch()
    run.feed("right", [{"j": 1, "seen": "2026-01-01T12:00:00Z"}])
    run.advance("left", early)
    run.batch()
    assert [(row["k"], row["j"]) for row in run.rows("out")] == [(1, 1)]
