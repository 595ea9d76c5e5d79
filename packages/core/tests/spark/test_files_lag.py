"""The lag of `files` compares names as Spark has logged them, however the document writes the path."""

from __future__ import annotations

import os

import pytest
from mainstem import Reached
from mainstem.run.lag import lags


@pytest.mark.parametrize("path", ["./in", "./other/../in", "./linked", "./in/*.jsonl"])
@pytest.mark.in_turn
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


@pytest.mark.in_turn
def test_files_that_spark_logged_once_more_are_counted_once(pipeline):
    """Twelve batches of a file each, so that Spark's log was written together on the way. Pass: nothing is
    unread; nothing is gone, and of three files that are removed the two of later batches are."""
    source = {"path": "./in", "format": "jsonlines", "schema": "k INT", "max_files": 1}
    pipeline.document(
        sources={"rows": {"use": "files", "with": source}},
        operators={},
        sinks={"out": pipeline.sink("out", "rows")},
    )
    for number in range(12):
        name = f"{number:02d}.jsonl"
        pipeline.feed(name, [{"k": number}])
        os.utime(pipeline.folder / "in" / name, (1_700_000_000 + number,) * 2)  # Spark's order
    pipeline.run()
    (whole,) = pipeline.folder.rglob("*.compact")
    plan = pipeline.plan()
    assert [found.lag.rows for found in lags(plan)] == [0]
    reached = Reached({"logOffset": 3}, whole.parent, pipeline.folder)
    source = plan.nodes["rows"].source
    assert source.gone(reached) == ""
    assert sum(lag.rows for lag in source.lag(reached)) == 8
    for number in (0, 9, 11):
        (pipeline.folder / "in" / f"{number:02d}.jsonl").unlink()
    assert source.gone(reached) == "2 files, such as 09.jsonl"
