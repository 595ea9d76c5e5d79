"""Panes and lateness as Apache Beam has them: the same rows and watermarks through its direct runner.

Watermarks are between minutes: at the very end of the lateness Beam's runner for Python still takes a row,
while Flink and we do not. Sessions are left out: merging late ones ends that runner.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from mainstem_keyed_state.testing import Driver, micros
from mainstem_keyed_state.times import TIME
from mainstem_operators_windows.totals.calls import read_total
from mainstem_operators_windows.totals.functions import accumulators_of
from mainstem_operators_windows.windows_logic import Emission, Windowing, WindowsLogic

BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MINUTES = 60_000_000
LENGTH, LATENESS = 10, 15
COLUMNS = pl.Schema(
    {
        "k": pl.String(),
        "__at": TIME,
        "__start": TIME,
        "__end": TIME,
        "__tie": pl.Binary(),
        "_a0_0": pl.Int64(),
    }
)


def cases(seed, number):
    """Make cases: rows and watermarks that grow, in any order."""
    draw = random.Random(seed)
    for count in (0, 2, 3) * number:
        for increments in (False, True):
            events, mark, ids = [], 0, iter(range(1000))
            for _ in range(draw.randint(2, 8)):
                rows = [
                    (draw.choice("ab"), max(0, mark + draw.randint(-20, 15)), next(ids))
                    for _ in range(draw.randint(0, 4))
                ]
                if rows:
                    events.append(("rows", rows))
                mark += draw.randint(1, 12)
                events.append(("watermark", mark + 0.5))
            yield {
                "window": LENGTH,
                "sessions": False,
                "lateness": LATENESS,
                "count": count,
                "increments": increments,
                "events": events,
            }


def ours(case):
    """Return the panes that the logic of `aggregate` makes of a case."""
    calls = list(read_total("t", "collect_list(v)").calls)
    totals = accumulators_of(calls, COLUMNS, {"__at": TIME, "__tie": pl.Binary()})
    windowing = Windowing(["k"], totals, ("from", "to"), {"k": pl.String()})
    emission = Emission(
        "panes",
        case["lateness"] * MINUTES,
        count=case["count"] or None,
        increments=case["increments"],
    )
    logic = WindowsLogic(COLUMNS, windowing, emission)
    never = 400 * 24 * 60 * MINUTES  # rows move no watermark
    driver = Driver(logic, {"input": ["k", "__start"]}, {"input": ("__at", never)})
    for what, told in case["events"]:
        if what == "watermark":
            driver.advance(micros(BEGIN) + int(told * MINUTES))
        else:
            driver.batch({"input": [row(*each) for each in told]})
    driver.advance(micros(BEGIN) + 10**6 * MINUTES)
    return sorted(
        [
            each["k"],
            (each["from"] - BEGIN) / MINUTE,
            (each["to"] - BEGIN) / MINUTE,
            each["pane"],
            each["pane_number"] - 1,
            sorted(each["_t0_told"]),
        ]
        for each in driver.outputs[""]
    )


def row(key, minute, number):
    start = BEGIN + minute // LENGTH * LENGTH * MINUTE
    return {
        "k": key,
        "__at": BEGIN + minute * MINUTE,
        "__start": start,
        "__end": start + LENGTH * MINUTE,
        "__tie": number.to_bytes(2, "big"),
        "_a0_0": number,
    }


@pytest.mark.in_turn
def test_panes_are_those_of_beam():
    """Pass: for any rows and watermarks the same panes: early by count, on time, late; what is dropped too."""
    asked = list(cases(20261127, 8))
    found = beam(asked)
    assert sum(map(len, found)) > 100
    assert {pane[3] for panes in found for pane in panes} == {"early", "on_time", "late"}
    for case, panes in zip(asked, found, strict=True):
        assert ours(case) == panes, case


def beam(asked):
    """Return the panes of Beam; installs it in an environment of its own."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    assert uv is not None, "uv is not installed"
    ended = subprocess.run(
        [uv, "run", "--quiet", "--script", str(Path(__file__).with_name("beam_panes.py"))],
        input="".join(json.dumps(case) + "\n" for case in asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]
