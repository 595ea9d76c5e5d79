"""kill -9 at each step between a batch's start and Spark's commit: nothing lost, nothing doubled."""

from __future__ import annotations

import pytest
from mainstem_testkit import crash_at_every_point


def document(pipeline):
    source = {"path": "./in", "format": "message", "max_files": 1}
    pipeline.document(
        require="exactly-once",
        sources={"lines": {"use": "files", "with": source}},
        operators={
            "row": {"use": "decode", "from": "lines", "with": {"format": "json", "schema": "n INT"}}
        },
        sinks={"out": pipeline.sink("out", "row"), "bad": pipeline.sink("bad", "row.rejected")},
    )
    for number in range(3):
        lines = [{"n": number * 10 + line} for line in range(10)]
        pipeline.feed(f"{number}.jsonl", [*lines, f"bad {number}"])  # type: ignore[list-item]


def assert_each_row_once(pipeline):
    assert sorted(row["n"] for row in pipeline.rows("out")) == list(range(30))
    assert len(pipeline.rows("bad")) == 3


def assert_some_rows_once(pipeline):
    seen = [row["n"] for row in pipeline.rows("out")]
    assert len(seen) == len(set(seen)) < 30


def runners(points):
    return [point for point in points if point.startswith("run.")]


@pytest.mark.in_turn
def test_a_kill_at_each_crash_point_of_the_runner(pipeline):
    """Pass: readers see each row at most once after the kill, and exactly once after the next run.

    The suite of sinks does so at the points of `files`.
    """
    document(pipeline)
    points = crash_at_every_point(
        pipeline, assert_each_row_once, points=runners, passes=(2,), meanwhile=assert_some_rows_once
    )
    assert points == ["run.before-batch", "run.after-batch"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("action", ["kill", "raise"])
def test_a_break_at_each_pass_of_each_crash_point(pipeline, action):
    """Pass: as above at every point, at its first four passes, by a kill and by an exception."""
    document(pipeline)
    points = crash_at_every_point(
        pipeline, assert_each_row_once, passes=(1, 2, 3, 4), action=action
    )
    files = {
        f"files.{step}" for step in ("before-write", "after-write", "before-rename", "after-rename")
    }
    assert set(points) == {"run.before-batch", "run.after-batch", *files}


@pytest.mark.in_turn
def test_a_kill_after_sparks_commit(pipeline):
    """Pass: killed as soon as the second batch is committed, the rerun adds only what is missing."""
    document(pipeline)
    commits = pipeline.folder / "checkpoints" / "test" / "queries" / "lines" / "commits"
    with pipeline.start() as process:
        process.wait_for((commits / "1").exists)
        process.kill()
    pipeline.run()
    assert_each_row_once(pipeline)


@pytest.mark.in_turn
def test_a_batch_that_was_written_but_not_committed_replaces_itself(pipeline):
    """Pass: with Spark's commit of the last batch taken back, a rerun leaves one copy of it."""
    document(pipeline)
    pipeline.run()
    folder = pipeline.folder / "checkpoints" / "test" / "queries" / "lines" / "commits"
    for file in (folder / "2", folder / ".2.crc"):
        file.unlink()
    before = {path.name for path in (pipeline.folder / "out").iterdir()}
    pipeline.run()
    assert {path.name for path in (pipeline.folder / "out").iterdir()} == before
    assert_each_row_once(pipeline)


@pytest.mark.in_turn
def test_a_new_checkpoint_never_overwrites_what_an_old_one_wrote(pipeline):
    """Pass: batch 0 of another checkpoint stands beside batch 0 of the first."""
    document(pipeline)
    pipeline.run()
    text = pipeline.file.read_text().replace("./checkpoints", "./others")
    pipeline.file.write_text(text)
    pipeline.run()
    assert sorted(row["n"] for row in pipeline.rows("out")) == sorted([*range(30), *range(30)])
