"""What a killed run leaves in the temporary folder is gone with the next run of its checkpoint."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from mainstem.durable import private_folder
from mainstem.run.session import own_scratch, scratch_of


@pytest.mark.in_turn
def test_the_next_run_removes_what_a_killed_one_has_left(pipeline, quick_java):
    """Pass: all of Spark's folders are in the process's own, its owner's alone; there and nowhere else; and
    so is the socket where others find a run."""
    pipeline.document(sinks={"out": pipeline.sink("out", "lines")}, trigger={"every": "1 second"})
    pipeline.feed("1.jsonl", ["a"])
    with tempfile.TemporaryDirectory() as temporary:
        env = {"TMPDIR": temporary}
        with pipeline.start(**env) as process:
            process.wait_for(lambda: pipeline.rows("out"))
            process.end()
        (user,) = Path(temporary).glob("mainstem-*")
        (left,) = (each for each in user.iterdir() if each.suffix != ".socket")
        assert any(each.name.startswith("spark-") for each in left.iterdir())
        assert {each.stat().st_mode & 0o777 for each in (user, left)} == {0o700}
        pipeline.document(sinks={"out": pipeline.sink("out", "lines")})
        ended = pipeline.command(**env)
        assert ended.returncode == 0, ended.stderr
        (kept,) = user.iterdir()
        assert kept != left


def test_each_checkpoint_has_folders_of_its_own(pipeline, tmp_path, monkeypatch):
    """Pass: of it, what processes that are gone have left is removed, and nothing of living ones or others."""
    with tempfile.TemporaryDirectory() as temporary:
        monkeypatch.setattr("tempfile.tempdir", temporary)
        pipeline.document(sinks={"out": pipeline.sink("out", "lines")})
        plan = pipeline.plan()
        other = type(pipeline)(tmp_path / "other")
        other.document(sinks={"out": pipeline.sink("out", "lines")})
        gone = subprocess.Popen(["true"])
        gone.wait()
        processes = (os.getpid(), os.getppid(), gone.pid)
        for each in (plan, other.plan()):
            for process in processes:
                made = scratch_of(each, process)
                private_folder(made.parent)
                private_folder(made)
        assert own_scratch(plan) == scratch_of(plan, os.getpid())
        assert [scratch_of(plan, each).exists() for each in processes] == [True, True, False]
        assert all(scratch_of(other.plan(), each).exists() for each in processes)
        scratch_of(plan, 1).parent.chmod(0o777)
        assert own_scratch(plan) is None, "others could put files there"
        monkeypatch.setattr("tempfile.tempdir", f"{temporary}/{'x' * 60}")
        assert own_scratch(plan) is None, "too long for sockets"
