"""What the metrics tell of helper processes."""

from __future__ import annotations

import socket
from typing import Any
from urllib.request import urlopen

import pytest
from mainstem.errors import MachineError
from mainstem.observation.http import address_of
from mainstem.observation.metrics import Metrics


@pytest.fixture
def told():
    """Return a function that tells metrics something of a helper, and returns what they serve of it then."""
    metrics = Metrics(0)

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


def test_what_a_helper_tells_by_name_is_served():
    """Pass: each number by its name; what is none changes nothing."""
    metrics = Metrics(0)
    for gauges in ({"log_behind_bytes": 7, "text": "x"}, None, "odd", {"other_seconds": 0.5}):
        metrics.helper({"pipeline": "p", "node": "n", "helper": "n-0", "gauges": gauges})
    with urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
        lines = [
            line
            for line in answer.read().decode().splitlines()
            if line.startswith("mainstem_helper_v")
        ]
    metrics.ended({})
    assert lines == [
        'mainstem_helper_value{helper="n-0",name="log_behind_bytes",node="n",pipeline="p"} 7.0',
        'mainstem_helper_value{helper="n-0",name="other_seconds",node="n",pipeline="p"} 0.5',
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9100", ("127.0.0.1", 9100)),
        ("0.0.0.0:9100", ("0.0.0.0", 9100)),
        ("[::1]:9100", ("::1", 9100)),
        ("here.example.org:1", ("here.example.org", 1)),
    ],
)
def test_where_metrics_are_served(text, found):
    """Pass: this machine alone without a host."""
    assert address_of(text) == found


@pytest.mark.parametrize("text", ["", "x", "0", "70000", "host:", "host:x", "1.2.3.4"])
def test_what_is_no_address_is_refused(text):
    """Pass: in words."""
    with pytest.raises(ValueError, match="neither a port nor HOST:PORT"):
        address_of(text)


def test_metrics_are_for_this_machine_unless_told():
    """Pass: another address of the same machine does not answer; with `0.0.0.0` it does."""
    others = "127.0.0.2"
    for host, answers in (("127.0.0.1", False), ("0.0.0.0", True)):
        metrics = Metrics(0, host)
        try:
            assert metrics.url == f"http://{host}:{metrics.port}/metrics"
            with socket.socket() as connection:
                assert (connection.connect_ex((others, metrics.port)) == 0) == answers
        finally:
            metrics.ended({})
    with pytest.raises(MachineError, match="can't serve metrics on 192.0.2.1:"):
        Metrics(0, "192.0.2.1")
