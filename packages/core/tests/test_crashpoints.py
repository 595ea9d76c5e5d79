"""Crash points do what the environment says, at the pass that it says, and nothing otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PASSES = """\
from mainstem import failpoint
for number in range(3):
    dropped = failpoint("a.step")
    failpoint("a.other")
    print(number, dropped, flush=True)
"""


def passed(armed: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PASSES],
        env={**os.environ, "MAINSTEM_FAILPOINT": armed, **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("armed", "code", "lines"),
    [
        ("", 0, ["0 False", "1 False", "2 False"]),
        ("a.step", -9, []),
        ("a.step:2", -9, ["0 False"]),
        ("a.step:3:kill", -9, ["0 False", "1 False"]),
        ("a.step:2:raise", 1, ["0 False"]),
        ("a.step:2:drop", 0, ["0 False", "1 True", "2 False"]),
        ("b.step:1", 0, ["0 False", "1 False", "2 False"]),
    ],
)
def test_a_point_does_what_it_is_armed_to_do_at_its_pass(armed, code, lines):
    """Pass: exit code, and what was done before and after."""
    result = passed(armed)
    assert (result.returncode, result.stdout.splitlines()) == (code, lines)
    assert ("mainstem.crashpoints.Failpoint: a.step" in result.stderr) == (code == 1)


@pytest.mark.in_turn
def test_a_point_can_stand_still():
    """Pass: the process takes so much longer, and goes on."""
    began = time.monotonic()
    assert passed("a.step:2:sleep=1.5").stdout.splitlines()[-1] == "2 False"
    assert time.monotonic() - began >= 1.5


def test_the_points_that_are_passed_can_be_listed(tmp_path: Path):
    """Pass: each name once, in the order of the first passes."""
    trace = tmp_path / "trace"
    passed("", MAINSTEM_FAILPOINT_TRACE=str(trace))
    assert trace.read_text().splitlines() == ["a.step", "a.other"]
