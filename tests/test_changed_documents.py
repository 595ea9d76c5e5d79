"""A changed document over an old checkpoint: what is served, what is refused, and the ways on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from mainstem.cli.app import app
from mainstem.errors import DocumentError, PipelineError
from totals_document import BASE, LINES, MORE, STATE, changed, minute, totals, write
from typer.testing import CliRunner

SERVED = {
    "a sink is added": changed(
        sinks__more={"use": "files", "from": "totals", "with": {"path": "./all", "format": "csv"}}
    ),
    "a sink's options change": changed(
        sinks__out__with={"path": "./out", "format": "jsonlines", "files_per_batch": 1}
    ),
    "a source is added": changed(
        sources={"lines": LINES, "others": MORE}, operators__row__from=["lines", "others"]
    ),
    "a stateless step is added below": changed(
        operators__some={"use": "select", "from": "totals", "with": {"where": "n > 0"}},
        sinks__out__from="some",
    ),
    "a stateless step is added above": changed(
        operators__some={"use": "select", "from": "lines", "with": {"where": "value IS NOT NULL"}},
        operators__row__from="some",
    ),
}


@pytest.mark.parametrize("case", SERVED)
@pytest.mark.in_turn
def test_what_is_served_gives_what_a_run_from_scratch_gives(pipeline, tmp_path_factory, case):
    """Pass: state of the first run goes on in the second; totals are those of one run over all."""
    write(pipeline, BASE)
    pipeline.feed("1.jsonl", minute(1, 2) + minute(2, 3))
    pipeline.run()
    write(pipeline, SERVED[case], flush=True)
    second = [json.dumps(row) for row in minute(2, 4) + minute(3, 1)]
    pipeline.feed("2.jsonl", second)
    pipeline.run()

    scratch = type(pipeline)(tmp_path_factory.mktemp("scratch"))
    write(scratch, SERVED[case], flush=True)
    scratch.feed("1.jsonl", minute(1, 2) + minute(2, 3))
    scratch.feed("2.jsonl", second)
    scratch.run()
    assert totals(pipeline) == totals(scratch)
    assert [n for *_, n in totals(pipeline)] == [2, 7, 1]


REFUSED = {
    "its key": (changed(operators__totals__with__by=["j"]), "had by ['k'], and now has ['j']"),
    "its window": (
        changed(operators__totals__with__window={"on": "at", "tumbling": "2 minutes"}),
        "had window",
    ),
    "its totals": (
        changed(operators__totals__with__columns={"n": "sum(1)"}),
        "had columns {'n': 'count(*)'}",
    ),
    "a source that is gone": (
        changed(sources={"others": MORE}, operators__row__from="others"),
        "it reads the source 'lines', which is gone",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.in_turn
def test_what_is_refused_names_the_change_and_the_ways_on(pipeline, case):
    """Pass: the run ends before any query starts, and `fresh` then reads all from the start, and has
    nothing of what was noted down beside the state.
    """
    write(pipeline, BASE)
    pipeline.feed("1.jsonl", minute(1, 2))
    pipeline.run()
    document, words = REFUSED[case]
    write(pipeline, document, flush=True)
    with pytest.raises(DocumentError) as caught:
        pipeline.run()
    text = str(caught.value)
    assert "the checkpoint of query 'totals' can't be used" in text
    assert words in text
    assert "--fresh totals" in text
    assert "Traceback" not in text
    if case in ("its key", "its window"):
        kept = pipeline.folder / "checkpoints/test/nodes/totals/state/totals"
        kept.mkdir(parents=True)  # what an operator notes down of its state
        pipeline.run(fresh=["totals"])
        assert not kept.exists()
        assert [row["n"] for row in pipeline.rows("out")] == [2]
        assert len(list((pipeline.folder / "checkpoints/test/set-aside").glob("totals-*"))) == 1


@pytest.mark.in_turn
def test_a_renamed_step_is_refused_and_begins_anew_when_told(pipeline):
    """Pass: both ways on are named; under `fresh` the new name has read everything."""
    write(pipeline, BASE)
    pipeline.feed("1.jsonl", minute(1, 2))
    pipeline.run()
    renamed = changed(operators__totals=None, operators__sums=STATE, sinks__out__from="sums")
    write(pipeline, renamed, flush=True)
    with pytest.raises(DocumentError, match="query 'totals' is gone and 'sums' is new") as caught:
        pipeline.run()
    assert "Rename 'sums' back to 'totals'" in str(caught.value)
    assert "--fresh sums" in str(caught.value)
    pipeline.run(fresh=["sums"])
    pipeline.feed("2.jsonl", minute(5, 1))
    pipeline.run()  # and from now on it is known
    assert [n for *_, n in totals(pipeline)] == [2, 1]


def test_only_a_query_that_there_is_can_begin_anew(pipeline):
    """Pass: a wrong name is refused with the nearest right one."""
    write(pipeline, BASE)
    with pytest.raises(PipelineError, match="there is no query 'total'.*totals"):
        pipeline.run(fresh=["total"])


@pytest.mark.in_turn
def test_a_rollback_asks_before_it_does_anything(pipeline):
    """Pass: it tells what would be done; without a yes nothing is, and with one all of it."""
    write(pipeline, BASE)
    for number in (1, 2, 3):
        pipeline.feed(f"{number}.jsonl", minute(number * 2, number))
        pipeline.run()
    before = totals(pipeline)
    command = ["checkpoint", "rollback", str(pipeline.file), "--query", "totals", "--batch", "1"]
    for arguments, answer, code in ((["--dry-run"], "", 0), ([], "n\n", 1), ([], "", 1)):
        told = CliRunner().invoke(app, [*command, *arguments], input=answer)
        assert told.exit_code == code, told.output
        assert "totals: batches 2 to " in told.output
        assert "out: what later batches wrote is taken back" in told.output
        assert totals(pipeline) == before
    assert CliRunner().invoke(app, command, input="y\n").exit_code == 0
    assert totals(pipeline) != before
    pipeline.run()
    assert totals(pipeline) == before


@pytest.mark.parametrize("point", ["rollback.after-forget", "rollback.after-logs"])
@pytest.mark.in_turn
def test_a_rollback_that_was_killed_is_finished_by_the_next_run(pipeline, point):
    """Pass: killed between its steps, nothing is lost and nothing doubled in the end."""
    write(pipeline, BASE)
    for number in (1, 2, 3):
        pipeline.feed(f"{number}.jsonl", minute(number * 2, number))
        pipeline.run()
    before = totals(pipeline)
    command = [sys.executable, "-m", "mainstem", "checkpoint", "rollback", str(pipeline.file)]
    env = {**os.environ, "MAINSTEM_FAILPOINT": f"{point}:1"}
    command += ["--query", "totals", "--batch", "1", "--yes"]
    killed = subprocess.run(command, env=env, check=False, capture_output=True)
    assert killed.returncode == -9
    assert totals(pipeline) != before
    pipeline.run()
    assert totals(pipeline) == before


@pytest.mark.in_turn
def test_a_query_taken_back_reads_again_and_ends_where_it_was(pipeline):
    """Pass: after a rollback the sink has no rows of later batches, and then all of them once."""
    from mainstem.plan.build import make_plan
    from mainstem.run.checkpoint import Checkpoint
    from mainstem.run.rollback import take_back

    write(pipeline, BASE)
    for number in range(1, 6):
        pipeline.feed(f"{number}.jsonl", minute(number * 2, number))
        pipeline.run()
    before = totals(pipeline)
    plan = make_plan(pipeline.file)
    (query,) = plan.queries
    with Checkpoint(plan):
        take_back(plan, query, 3)
    assert totals(pipeline) == before[: len(totals(pipeline))]
    assert len(totals(pipeline)) < len(before)
    pipeline.run()
    assert totals(pipeline) == before
    (pipeline.folder / "in" / "5.jsonl").unlink()
    with Checkpoint(plan), pytest.raises(PipelineError, match=r"no longer has .* such as 5.jsonl"):
        take_back(plan, query, 3)
