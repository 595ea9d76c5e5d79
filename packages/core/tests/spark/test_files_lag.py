"""The lag of `files` compares names as Spark has logged them, however the document writes the path."""

from __future__ import annotations

import pytest
from mainstem.run.lagging import lags


@pytest.mark.parametrize("path", ["./in", "./other/../in", "./linked", "./in/*.jsonl"])
def test_files_that_were_read_are_known_by_any_way_to_them(pipeline, path):
    """Pass: nothing is unread after a run, and a file that comes is; names with spaces and signs too."""
    (pipeline.folder / "other").mkdir()
    (pipeline.folder / "linked").symlink_to(pipeline.folder / "in")
    source = {"path": path, "format": "jsonlines", "schema": "k INT"}
    pipeline.document(
        sources={"rows": {"use": "files", "with": source}},
        operators={},
        sinks={"out": pipeline.sink("out", "rows")},
    )
    pipeline.feed("one é%.jsonl", [{"k": 1}, {"k": 2}])
    pipeline.run()
    plan = pipeline.plan()
    assert [found.lag.rows for found in lags(plan)] == [0]
    pipeline.feed("two.jsonl", [{"k": 3}])
    assert [found.lag.rows for found in lags(plan)] == [1]
