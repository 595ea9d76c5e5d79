"""`replay --rebuild`: what a sink holds is built anew beside, and put in place at once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from mainstem import PipelineError
from mainstem.cli.app import app
from mainstem.plan.build import make_plan
from mainstem.plan.replay import replay_plan
from mainstem_testkit import wait_for
from typer.testing import CliRunner


def document(pipeline, deliver="idempotent", **parts):
    """A table of the newest change of each key, deletes included."""
    schema = "k STRING NOT NULL, v INT, at BIGINT, gone BOOLEAN"
    changes = {"key": ["k"], "sequence": "at", "delete": "gone"}
    table = {"url": "sqlite:///./board.db", "table": "board"}
    return pipeline.document(
        operators={
            "row": {"use": "decode", "from": "lines", "with": {"format": "json", "schema": schema}},
            "change": {"use": "changelog", "from": "row", "with": changes},
        },
        sinks={
            "board": {"use": "sql", "from": "change", "deliver": deliver, "with": table},
            "bad": pipeline.sink("bad", "row.rejected"),
        },
        **parts,
    )


def row(key, value, at, gone=False):
    return {"k": key, "v": value, "at": at, "gone": gone}


def board(pipeline):
    with closing(sqlite3.connect(pipeline.folder / "board.db")) as database:
        return dict(database.execute("SELECT k, v FROM board ORDER BY k"))


def tables(pipeline):
    with closing(sqlite3.connect(pipeline.folder / "board.db")) as database:
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in found}


def damage(pipeline):
    """Do to the table what a wrong version of the document might have done."""
    with closing(sqlite3.connect(pipeline.folder / "board.db")) as database:
        database.execute("UPDATE board SET v = -1")
        database.execute("INSERT INTO board (k, v) VALUES ('ghost', 0)")
        database.commit()


def rebuild(pipeline, *arguments, **env):
    import os

    argv = [sys.executable, "-m", "mainstem", "replay", str(pipeline.file), "--query", "lines"]
    return subprocess.run(
        [*argv, "--rebuild", "board", "--yes", *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def filled(pipeline):
    document(pipeline)
    pipeline.feed("1.jsonl", [row("a", 1, 1), row("b", 1, 2), row("c", 1, 3)])
    pipeline.feed("2.jsonl", [row("a", 2, 5), row("b", 9, 4, gone=True)])
    pipeline.run()
    assert board(pipeline) == {"a": 2, "c": 1}
    damage(pipeline)
    return pipeline


@pytest.mark.in_turn
def test_a_rebuild_asks_before_it_does_anything(pipeline):
    """Pass: it tells what would be done; without a yes nothing is."""
    filled(pipeline)
    command = ["replay", str(pipeline.file), "--query", "lines", "--rebuild", "board"]
    for arguments, answer, code in ((["--dry-run"], "", 0), ([], "n\n", 1), ([], "", 1)):
        told = CliRunner().invoke(app, [*command, *arguments], input=answer)
        assert told.exit_code == code, told.output
        assert "board: what it holds is replaced by what is built beside it" in told.output
        assert board(pipeline) == {"a": -1, "c": -1, "ghost": 0}
    assert not list(pipeline.folder.glob("checkpoints/test/replays/*"))


POINTS = ["rebuild.before-swap", "rebuild.after-swap", "rebuild.forgetting:2"]


@pytest.mark.parametrize(
    "point", [POINTS[0], *(pytest.param(p, marks=pytest.mark.slow) for p in (POINTS[1], ""))]
)
@pytest.mark.in_turn
def test_a_damaged_table_is_whole_again_whenever_the_command_is_killed(pipeline, quick_java, point):
    """Pass: readers see the old table or the new one; the next command makes it good; so does the next
    run, which deletes and older changes do not confuse."""
    filled(pipeline)
    if point:
        killed = rebuild(pipeline, MAINSTEM_FAILPOINT=point)
        assert killed.returncode == -9, killed.stderr
        assert board(pipeline) in ({"a": -1, "c": -1, "ghost": 0}, {"a": 2, "c": 1})
    done = rebuild(pipeline)
    assert done.returncode == 0, done.stderr
    assert board(pipeline) == {"a": 2, "c": 1}
    assert not [name for name in tables(pipeline) if "rebuilt" in name or "swapped" in name]
    pipeline.feed("3.jsonl", [row("b", 7, 3), row("a", 0, 4), row("c", 3, 6)])
    pipeline.run()
    assert board(pipeline) == {"a": 2, "c": 3}, "an older change came through"


@pytest.mark.parametrize("point", [POINTS[0], pytest.param(POINTS[2], marks=pytest.mark.slow)])
@pytest.mark.in_turn
def test_a_run_after_a_kill_finishes_the_swap_first(pipeline, quick_java, point):
    """Pass: what the run writes is there afterwards, also when the command is given again."""
    filled(pipeline)
    assert rebuild(pipeline, MAINSTEM_FAILPOINT=point).returncode == -9
    pipeline.feed("3.jsonl", [row("d", 4, 7)])
    pipeline.run()
    assert board(pipeline) == {"a": 2, "c": 1, "d": 4}
    assert rebuild(pipeline).returncode == 0
    assert board(pipeline) == {"a": 2, "c": 1, "d": 4}


@pytest.mark.in_turn
def test_a_sink_that_was_renamed_in_the_middle_is_asked_for(pipeline, quick_java):
    """Pass: nothing runs until the sink has its name again; the error says what to do."""
    filled(pipeline)
    assert rebuild(pipeline, MAINSTEM_FAILPOINT="rebuild.before-swap").returncode == -9
    text = pipeline.file.read_text()
    pipeline.file.write_text(text.replace("board:", "other:"))
    told = pipeline.command()
    assert told.returncode == 1
    assert "board: was rebuilt and is to be put in place" in told.stderr
    pipeline.file.write_text(text)
    pipeline.run()
    assert board(pipeline) == {"a": 2, "c": 1}


@pytest.mark.in_turn
def test_what_is_not_there_any_more_is_not_taken_away(pipeline, quick_java):
    """Pass: a source that has lost what was read, and a point that leaves some out, are refused."""
    filled(pipeline)
    pipeline.folder.joinpath("in", "1.jsonl").unlink()
    refused = rebuild(pipeline)
    assert refused.returncode == 1
    assert "lines no longer has all that was read: 1 files, such as 1.jsonl" in refused.stderr
    refused = rebuild(pipeline, "--from", "2026-01-01")
    assert "what is rebuilt begins at `earliest`" in refused.stderr
    assert board(pipeline) == {"a": -1, "c": -1, "ghost": 0}


@pytest.mark.slow
def test_a_running_pipeline_is_not_swapped_under(pipeline, quick_java):
    """Pass: the command says so, leaves the table, and goes on when the pipeline stands still."""
    filled(pipeline)
    document(pipeline, trigger={"every": "200 ms"})
    with pipeline.start() as process:
        process.wait_for(lambda: pipeline.feed("3.jsonl", [row("d", 4, 7)]) is None)
        wait_for(lambda: "d" in board(pipeline))
        refused = rebuild(pipeline)
        assert refused.returncode == 1
        assert "rebuilt, and not put in place: the pipeline is already running" in refused.stderr
        assert board(pipeline)["ghost"] == 0
    assert rebuild(pipeline).returncode == 0
    assert board(pipeline) == {"a": 2, "c": 1, "d": 4}


def test_what_can_not_be_rebuilt_is_refused_in_words(pipeline):
    """Pass: a sink that can't be built beside, and a delivery that would double rows."""
    document(pipeline)
    with pytest.raises(PipelineError, match=r"bad: the sink 'files' can't be rebuilt beside"):
        replay_plan(make_plan(pipeline.file), "lines", "earliest", {}, ["bad"])
    document(pipeline, deliver="transactional")
    with pytest.raises(PipelineError, match="would double, for `deliver: transactional`"):
        replay_plan(make_plan(pipeline.file), "lines", "earliest", {}, ["board"])
