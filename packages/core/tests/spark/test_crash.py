"""kill -9 at each step between a batch's start and Spark's commit: nothing lost, nothing doubled."""

from __future__ import annotations

import os
import signal

import pytest

POINTS = [
    "run.before-batch:2",
    "files.before-write:4",
    "files.after-write:4",
    "files.before-rename:4",
    "files.after-rename:4",
    "run.after-batch:2",
]


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


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_in_the_middle_of_a_batch(pipeline, point):
    """Pass: the process dies at the point, readers see each row at most once, the rerun is whole."""
    document(pipeline)
    crashed = pipeline.command(MAINSTEM_FAILPOINT=point)
    assert crashed.returncode == -signal.SIGKILL, crashed.stderr
    seen = [row["n"] for row in pipeline.rows("out")]
    assert len(seen) == len(set(seen))
    assert 10 <= len(seen) < 30
    pipeline.run()
    assert_each_row_once(pipeline)


def test_a_kill_after_sparks_commit(pipeline):
    """Pass: killed as soon as the second batch is committed, the rerun adds only what is missing."""
    document(pipeline)
    commits = pipeline.folder / "checkpoints" / "test" / "queries" / "lines" / "commits"
    process = pipeline.spawn()
    try:
        pipeline.wait_for((commits / "1").exists)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        pipeline.end(process)
    pipeline.run()
    assert_each_row_once(pipeline)


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


def test_a_new_checkpoint_never_overwrites_what_an_old_one_wrote(pipeline):
    """Pass: batch 0 of another checkpoint stands beside batch 0 of the first."""
    document(pipeline)
    pipeline.run()
    text = pipeline.file.read_text().replace("./checkpoints", "./others")
    pipeline.file.write_text(text)
    pipeline.run()
    assert sorted(row["n"] for row in pipeline.rows("out")) == sorted([*range(30), *range(30)])
