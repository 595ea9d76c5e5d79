"""What the metrics tell of helper processes."""

from __future__ import annotations

from typing import Any
from urllib.request import urlopen

import pytest
from mainstem.run.metrics import Metrics
from mainstem.run.showing import Silent


@pytest.fixture
def told():
    """Return a function that tells metrics something of a helper, and returns what they serve of it then."""
    metrics = Metrics(0, Silent())

    def told(**facts: Any) -> list[float]:
        metrics.helper({"pipeline": "p", "node": "queue", "helper": "queue-0", **facts})
        with urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        labels = '{helper="queue-0",node="queue",pipeline="p"}'
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        names = ("running", "rows_total", "restarts_total")
        return [float(values[f"mainstem_helper_{name}{labels}"]) for name in names]

    yield told
    metrics.ended({})


def test_a_helper_that_waits_or_ended_does_not_run(told):
    """Pass: running is 1 only while it does its work; each end is a restart."""
    assert told(state="connecting", rows=0) == [0, 0, 0]
    assert told(state="running", rows=0) == [1, 0, 0]
    assert told(state="waiting", why="no such host", rows=0) == [0, 0, 0]
    assert told(state="restarting", why="was killed by signal 9") == [0, 0, 1]
    assert told(state="running", rows=0) == [1, 0, 1]


def test_odd_lines_of_a_helper_change_nothing(told):
    """Pass: without a state it is as before, and rows that are no number are none."""
    assert told(state="running", rows=5) == [1, 5, 0]
    assert told(rows=6) == [1, 6, 0]
    assert told(rows=None) == [1, 6, 0]
    assert told(rows="many") == [1, 6, 0]
    assert told(state="paused", rows=7) == [0, 7, 0]


def test_rows_are_counted_over_the_lives_of_a_helper(told):
    """Pass: each row counts once, though a helper counts from its start anew."""
    assert told(state="running", rows=5)[1] == 5
    assert told(state="running", rows=7)[1] == 7
    assert told(state="running")[1] == 7
    assert told(state="restarting")[1] == 7
    assert told(state="running", rows=9)[1] == 16
