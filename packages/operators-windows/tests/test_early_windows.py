"""A time from the far future is set apart before it moves the watermark of windows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest


@pytest.mark.in_turn
def test_windows_stay_open_for_what_comes_after_a_date_in_2099(trial):
    """Pass: with `ahead`, rows that come after one of 2099 are in their windows; without, they are late."""
    found = {}
    for ahead in ({}, {"ahead": "1 hour"}):
        made = trial(
            {
                "pipeline": "early",
                "sources": {"rows": {"use": "files", "with": {
                    "path": "./in", "format": "jsonlines", "schema": "k STRING, at TIMESTAMP",
                }, "on_rejected": "drop", "watermark": {"column": "at", "delay": "1 minute", **ahead}}},
                "operators": {"total": {"use": "aggregate", "from": "rows", "with": {
                    "by": ["k"], "window": {"on": "at", "tumbling": "1 hour"}, "columns": {"n": "count(*)"},
                }}},
                "sinks": {"out": {"use": "console", "from": "total"}},
            }
        )  # fmt: skip
        made.feed(
            "rows",
            [{"k": "a", "at": "2024-01-01T00:10:00Z"}, {"k": "a", "at": "2099-01-01T00:00:00Z"}],
        )
        made.batch()
        made.feed("rows", [{"k": "a", "at": "2024-01-01T00:20:00Z"}])
        made.batch()
        made.advance("rows", datetime(2024, 1, 1, 2, tzinfo=UTC))
        made.batch()
        found[bool(ahead)] = [row["n"] for row in made.rows("out") if row["window_start"] < "2025"]
    assert found == {False: [1], True: [2]}
