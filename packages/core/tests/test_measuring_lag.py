"""The lag of a running query is measured also while no batch ends; by a clock that the test moves."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from mainstem.observation.metrics import Metrics
from mainstem.plan.build import make_plan
from mainstem.run.lag import Measuring
from mainstem.run.running_query import RunningQuery


class Broker:
    """Tells one row more each time; takes so many seconds, or waits until it may go on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.takes = 0.0
        self.down = False
        self.go_on = threading.Event()
        self.go_on.set()
        self.lag = Measuring(self.measure, lambda: self.now)

    def measure(self) -> Any:
        self.asked += 1
        self.go_on.wait(60)
        self.now += self.takes
        if self.down:
            raise ConnectionError
        return {"log": {"rows": self.asked, "seconds": 0.0}}

    def news(self, seconds: float = 0.0) -> Any:
        """Move the clock, let a measuring that begins then end, and return what there is to tell."""
        self.now += seconds
        told = self.lag.news()
        if self.go_on.is_set():
            self.lag._done.wait(60)
        return told


@pytest.fixture
def broker():
    made = Broker()
    yield made
    made.go_on.set()
    made.lag.close()


def rows(lag: Any) -> Any:
    return lag and lag["log"]["rows"]


def test_it_is_measured_while_no_batch_ends_and_told_once(broker):
    """Pass: not at once, then every five seconds, each told once; a batch is told with one of its own."""
    assert broker.news(5) is None
    assert broker.asked == 0
    assert broker.news(1) is None
    assert rows(broker.news()) == 1
    assert broker.news() is None
    assert rows(broker.lag.of_batch()) == 2
    assert broker.news() is None
    assert rows(broker.lag.of_batch()) == 2
    assert broker.asked == 2
    broker.news(6)
    assert rows(broker.news()) == 3


def test_an_external_system_that_takes_long_is_asked_less_often(broker):
    """Pass: after ten times as long as it took."""
    broker.takes = 3.0
    broker.news(6)
    assert broker.asked == 1
    broker.news(20)
    assert broker.asked == 1
    broker.news()
    broker.news(10)
    assert broker.asked == 2


def test_a_lag_that_is_not_known_is_told_as_such(broker):
    """Pass: nothing is known of a broker that can't be asked, nor of one that does not answer for a minute; when it
    does, that is told."""
    broker.news(6)
    assert rows(broker.news()) == 1
    broker.down = True
    broker.news(6)
    assert broker.news() == {}
    broker.down = False
    broker.news(6)
    assert rows(broker.news()) == 3
    broker.go_on.clear()
    broker.news(6)
    assert broker.news(59) is None
    assert broker.news(2) == {}
    assert broker.news(9) is None
    broker.go_on.set()
    broker.lag._done.wait(60)
    assert rows(broker.news()) == 4


def test_one_thread_measures_and_ends_when_it_is_told_to(broker):
    """Pass: the same for each time; after the end none is left, and what begins again measures again."""
    seen = set()
    for _ in range(4):
        broker.news(6)
        seen.add(broker.lag._beside)
        assert broker.news()
    (first,) = seen
    broker.lag.close()
    first.join(60)
    assert not first.is_alive()
    broker.news(6)
    assert broker.asked == 5
    assert broker.lag._beside is not first


def test_a_query_tells_it_while_it_is_watched():
    """Pass: no batch has ended, and the reporter has the lag."""
    told: list[Any] = []
    query = RunningQuery.__new__(RunningQuery)
    query.name = "q"
    query._plan = SimpleNamespace(pipeline="p")  # type: ignore[assignment]
    query._running = SimpleNamespace(isActive=True)  # type: ignore[assignment]
    query._ended, query._idleness = False, None
    query._batches = SimpleNamespace(in_hand=None)  # type: ignore[assignment]
    query._drain = lambda report: None  # type: ignore[method-assign]
    query._reporter = SimpleNamespace(lag=told.append)  # type: ignore[assignment]
    query._lag = SimpleNamespace(news=lambda: {"log": {"rows": 7, "seconds": 1.0}})  # type: ignore[assignment]
    assert query.watch(None, threading.Event())
    (facts,) = told
    assert (facts["query"], facts["lag"]["log"]["rows"]) == ("q", 7)


def test_gauges_follow_and_are_nan_where_nothing_is_known():
    """Pass: NaN from the start, values as told between batches, NaN again for what is not told any more."""
    source = {"use": "files", "with": {"path": "in", "format": "message"}}
    sinks = {"out": {"use": "console", "from": "lines"}}
    plan = make_plan({"pipeline": "p", "sources": {"lines": source}, "sinks": sinks})
    metrics = Metrics(0)

    def served(prefix: str) -> dict[str, str]:
        with urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        told = (line.removeprefix(prefix) for line in lines if line.startswith(prefix))
        return {line.partition("{")[0]: line.split()[-1] for line in told}

    def shown() -> list[str]:
        return list(served("mainstem_lag_").values())

    facts = {"pipeline": "p", "query": "lines"}
    metrics.started(plan)
    try:
        assert shown() == ["NaN", "NaN"]
        metrics.lag({**facts, "lag": {"lines": {"rows": 5, "seconds": 2.0}}})
        assert shown() == ["5.0", "2.0"]
        metrics.lag({**facts, "lag": {"lines": {"rows": 6, "seconds": None}}})
        assert shown() == ["6.0", "NaN"]
        metrics.lag({**facts, "lag": {"lines": {"rows": 6, "seconds": 40.0}}})
        lags = served("mainstem_source_lag_seconds_")
        assert (lags["count"], lags["sum"]) == ("2.0", "42.0")  # what is not known is not counted
        batch = {"seconds": 1.0, "late_rows": 0, "state_rows": 0, "nodes": {}, "watermark": None}
        metrics.batch({**facts, **batch, "at": "2026-01-01T00:00:00Z", "lag": {}})
        assert shown() == ["NaN", "NaN"]
    finally:
        metrics.ended({})
