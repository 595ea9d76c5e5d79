"""Keyed state under kill -9, and read back from a checkpoint by `mainstem state`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest
import typer
from mainstem.errors import DocumentError
from mainstem_keyed_state.commands import show
from mainstem_testkit import PipelineFolder, crash_at_every_point
from typer.testing import CliRunner

pytestmark = pytest.mark.usefixtures("plugin")

STATE = typer.Typer()
STATE.command("state")(show)


def counting(pipeline: PipelineFolder) -> PipelineFolder:
    """Write a document that counts keys, of files that are read one by one."""
    source = {"path": "./in", "format": "jsonlines", "schema": "k INT", "max_files": 1}
    pipeline.document(
        sources={"rows": {"use": "files", "with": source}},
        operators={"counted": {"use": "count_keys", "from": "rows"}},
        sinks={"out": pipeline.sink("out", "counted")},
    )
    for number in range(3):
        pipeline.feed(f"{number}.json", [{"k": k % 40} for k in range(number, 100)])
    return pipeline


WANTED = Counter(k % 40 for number in range(3) for k in range(number, 100))


def counts_are_exact(pipeline: PipelineFolder) -> None:
    """Every key's last count is its number of rows, and each count came out once."""
    rows = [(row["k"], row["n"]) for row in pipeline.rows("out")]
    assert max(Counter(rows).values()) == 1, "a count came out twice"
    last: dict[int, int] = {}
    for k, n in rows:
        last[k] = max(n, last.get(k, 0))
    assert last == WANTED


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_a_kill_at_every_point_changes_no_count(pipeline: PipelineFolder) -> None:
    """Pass: after a kill at each step in the worker, and of the run itself, counts are exact."""
    points = crash_at_every_point(counting(pipeline), counts_are_exact, passes=(1, 4))
    names = {"stepped", "pages-written", "bucket-done"}
    assert {f"keyed-state.{name}" for name in names} <= set(points)


#: A Python whose first process for state on the driver starts later than Spark waits.
LATE = """\
#!/bin/sh
case "$*" in
  *transform_with_state_driver_worker*) if mkdir "{mark}" 2> /dev/null; then sleep 12; fi ;;
esac
exec "{python}" "$@"
"""


@pytest.mark.timeout(300)
@pytest.mark.in_turn
def test_a_python_process_that_comes_too_late_is_started_again(pipeline: PipelineFolder) -> None:
    """Pass: Spark fails the query after ten seconds, it is started anew, and that is told; counts are exact."""
    late = pipeline.folder / "late-python"
    late.write_text(LATE.format(mark=pipeline.folder / "mark", python=sys.executable))
    late.chmod(0o755)
    ended = counting(pipeline).command(PYSPARK_PYTHON=str(late))
    assert ended.returncode == 0, ended.stderr
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each["query"] for each in told if each["event"] == "restarted"] == ["counted"]
    counts_are_exact(pipeline)


@pytest.mark.timeout(600)
@pytest.mark.in_turn
def test_a_kill_between_batches_changes_no_count_and_state_can_be_read(
    pipeline: PipelineFolder,
) -> None:
    """Pass: killed after the second batch was written, the next run goes on; the state is the counts."""
    counting(pipeline)
    killed = pipeline.command(MAINSTEM_FAILPOINT="run.after-batch:2:kill")
    assert killed.returncode != 0
    pipeline.run()
    counts_are_exact(pipeline)

    rows = state_of(pipeline, "counted", "--format", "json", "--limit", "0")
    told = [json.loads(line) for line in rows]
    assert {int(row["key"][0]): row["row"]["n"] for row in told} == WANTED
    [row] = state_of(pipeline, "counted", "--key", "7", "--format", "json")
    assert json.loads(row) == {"table": "counts", "key": ["7"], "row": {"n": WANTED[7]}}
    command = [sys.executable, "-m", "mainstem", "state", pipeline.file, "--node", "counted"]
    ended = subprocess.run([*command, "--key", "7"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert any("7" in line and str(WANTED[7]) in line for line in ended.stdout.splitlines())


@pytest.mark.timeout(300)
@pytest.mark.in_turn
def test_rows_that_wait_apart_from_their_keys_can_be_read(pipeline: PipelineFolder) -> None:
    """Pass: rows of a queued table are shown, all and by key; a table that is not there is told."""
    source = {"path": "./in", "format": "jsonlines", "schema": "k INT, at TIMESTAMP"}
    watermark = {"column": "at", "delay": "1 hour"}
    options = {"key": ["k"], "due": "at", "queued": True}
    pipeline.document(
        sources={"rows": {"use": "files", "with": source, "watermark": watermark}},
        operators={"kept": {"use": "remember", "from": "rows", "with": options}},
        sinks={"out": pipeline.sink("out", "kept")},
    )
    times = [f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3)]
    pipeline.feed("0.json", [{"k": k, "at": at} for k in range(5) for at in times])
    pipeline.run()
    # The watermark let those of the first two days go.
    rows = [json.loads(line) for line in state_of(pipeline, "kept", "--format", "json")]
    assert sorted((row["key"], row["row"]["at"][:10]) for row in rows) == [
        ([str(k)], "2026-01-03") for k in range(5)
    ]
    for arguments, found in ((("--table", "kept"), 1), ((), 1)):
        assert (
            len(state_of(pipeline, "kept", "--key", "3", "--format", "json", *arguments)) == found
        )
    with pytest.raises(DocumentError, match="no table 'keept'") as told:
        state_of(pipeline, "kept", "--table", "keept")
    assert "kept" in told.value.problems[0].hint


def state_of(pipeline: PipelineFolder, node: str, *arguments: str) -> list[str]:
    """Return the lines that `mainstem state` writes."""
    command = [str(pipeline.file), "--node", node, *arguments]
    ended = CliRunner().invoke(STATE, command, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout.splitlines()
