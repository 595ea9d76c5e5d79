"""A batch that has nothing but control rows on one side of a join keeps the other side's rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytestmark = pytest.mark.usefixtures("looking")


def source(schema, time):
    options = {"path": "in", "format": "jsonlines", "schema": schema}
    watermark = {"column": time, "delay": "1 hour"}
    return {"use": "files", "with": options, "watermark": watermark}


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("INT", 1),
        ("ARRAY<INT>", [1, 2]),
        ("STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING>>>", {"a": 1, "b": [{"c": "x"}]}),
    ],
    ids=["int", "array", "struct"],
)
@pytest.mark.in_turn
def test_a_row_that_comes_with_a_control_row_of_the_other_side_is_kept(trial, kind, key):
    """Pass: rows of a pair that come in two batches, each with only a control row opposite, are joined."""
    sources = {
        "left": source(f"k {kind}, at TIMESTAMP", "at"),
        "right": source(f"j {kind}, seen TIMESTAMP", "seen"),
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
    run.feed("left", [{"k": key, "at": "2026-01-01T12:00:00Z"}])
    run.advance("right", early)
    run.batch()
    run.feed("right", [{"j": key, "seen": "2026-01-01T12:00:00Z"}])
    run.advance("left", early)
    run.batch()
    (row,) = run.rows("out")
    assert row["k"] == row["j"] is not None
