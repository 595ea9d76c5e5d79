"""When a node is idle, and where its watermark goes then; by a clock that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from mainstem.plan.build import make_plan
from mainstem.run.idleness import Idleness

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Moved:
    """Keeps the control rows that would be written."""

    def __init__(self):
        self.rows = []
        self.often = {}

    def advance(self, name, to):
        self.rows.append((name, to - NOON))

    def streams(self, name):
        return self.often.get(name, 1)


def source(**watermark):
    return {
        "use": "files",
        "with": {"path": "in", "format": "jsonlines", "schema": "k STRING, at TIMESTAMP"},
        "watermark": {"column": "at", "delay": "1 minute", **watermark},
    }


@pytest.fixture
def world():
    class World:
        now = 0.0

        def __init__(self):
            self.moved = Moved()

        def begin(self, **sources):
            plan = make_plan(
                {
                    "pipeline": "test",
                    "sources": sources,
                    "sinks": {"out": {"use": "console", "from": list(sources)}},
                }
            )
            self.idleness = Idleness(plan, plan.queries[0], self.moved, lambda: self.now)
            return self

        def at(self, seconds, **minutes):
            """Move the clock, and give each node a row whose time is so many minutes past noon."""
            self.now = seconds
            micros = {
                name: (NOON + timedelta(minutes=late)).timestamp() * 1e6
                for name, late in minutes.items()
            }
            self.idleness.hear(
                {f"{n}__watermark1": {"rows": 1, "latest": int(m)} for n, m in micros.items()}
            )
            self.idleness.move()
            return self

        @property
        def rows(self):
            return [(name, to.total_seconds() / 60) for name, to in self.moved.rows]

    return World()


def test_an_idle_node_goes_where_the_others_are_and_not_beyond(world):
    """Pass: moved once it was silent for so long, to the lowest of the others', which are behind their delays."""
    world.begin(a=source(), b=source(), t=source(idle_after="10 seconds"))
    world.at(1, a=10, b=20)
    world.at(9, a=11, b=21)
    assert world.rows == []
    world.at(10)
    assert world.rows == [("t", 10.0)]
    assert world.idleness.idle() == ["t"]


def test_it_follows_the_others_while_it_stays_idle_but_not_with_each_batch(world):
    """Pass: at most one row each second (a tenth of `idle_after`), and none where nothing has moved."""
    world.begin(a=source(), t=source(idle_after="10 seconds"))
    world.at(10, a=10).at(10.5, a=11).at(11.5).at(13).at(14, a=9).at(15, a=12)
    assert world.rows == [("t", 9.0), ("t", 10.0), ("t", 11.0)]


def test_a_node_with_rows_is_not_moved_and_one_that_was_idle_counts_again(world):
    """Pass: rows end the idleness; it begins anew after the last of them; never back to what is known."""
    world.begin(a=source(), t=source(idle_after="10 seconds"))
    world.at(5, a=10, t=5).at(14, a=20)
    assert world.rows == []
    world.at(15)
    assert world.rows == [("t", 19.0)]
    world.at(16, t=100)
    assert world.idleness.idle() == []
    world.at(30, a=50)
    assert world.rows == [("t", 19.0)]  # its own watermark is at 99
    world.at(40, a=200)
    assert world.rows[1:] == [("t", 199.0)]


def test_a_node_that_nobody_has_heard_of_holds_the_watermark_back_unless_it_is_idle_too(world):
    """Pass: with a patient node that is silent nothing moves; with two idle ones both go on."""
    world.begin(a=source(), b=source(), t=source(idle_after="10 seconds"))
    world.at(20, a=10)
    assert world.rows == []
    world.begin(a=source(), b=source(idle_after="10 seconds"), t=source(idle_after="10 seconds"))
    world.at(40, a=10)
    assert world.rows == [("b", 9.0), ("t", 9.0)]


def test_when_all_are_idle_time_stands_still(world):
    """Pass: nothing moves, for there is nothing to go on with."""
    world.begin(a=source(idle_after="10 seconds"), t=source(idle_after="10 seconds"))
    world.at(1, a=10, t=5).at(20)
    assert world.rows == []
    assert world.idleness.idle() == ["a", "t"]


def test_a_node_that_is_read_twice_is_where_the_slower_read_is(world):
    """Pass: nothing moves to it until both reads are heard of; then the lower counts."""
    world.begin(a=source(), t=source(idle_after="10 seconds"))
    world.moved.often["a"] = 2
    world.at(20, a=10)
    assert world.rows == []
    later = int((NOON + timedelta(minutes=5)).timestamp() * 1e6)
    world.idleness.hear({"a__watermark2": {"rows": 1, "latest": later}})
    world.at(30)
    assert world.rows == [("t", 4.0)]


def test_rows_without_a_time_are_rows(world):
    """Pass: a batch whose times are all null ends the idleness and moves nothing."""
    world.begin(a=source(), t=source(idle_after="10 seconds"))
    world.at(5, a=10)
    world.now = 12
    world.idleness.hear({"t__watermark1": {"rows": 3, "latest": None}, "t": {"rows": 3}})
    world.idleness.move()
    assert world.idleness.idle() == []
    assert world.rows == []


def test_metrics_tell_who_is_idle_and_that_a_query_loads():
    """Pass: 0 before anything is told, 1 while it is so, 0 again after; only nodes that can be idle."""
    from urllib.request import urlopen

    from mainstem.observation.metrics import Metrics

    document = {
        "pipeline": "test",
        "sources": {"a": source(), "t": source(idle_after="10 seconds")},
        "sinks": {"out": {"use": "console", "from": ["a", "t"]}},
    }
    metrics = Metrics(0)
    facts = {
        "pipeline": "test",
        "query": "out",
        "seconds": 1.0,
        "at": "2026-01-01T00:00:00Z",
        "late_rows": 0,
        "state_rows": 0,
    }

    def shown(name):
        with urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return {line for line in lines if line.startswith(f"mainstem_{name}{{")}

    idle = 'mainstem_idle{node="t",pipeline="test",query="out"}'
    loading = 'mainstem_loading{pipeline="test",query="out"}'
    metrics.started(make_plan(document))
    try:
        assert shown("idle") == {f"{idle} 0.0"}
        assert shown("loading") == {f"{loading} 0.0"}
        metrics.loading({**facts, "event": "loading"})
        metrics.batch({**facts, "nodes": {}, "watermark": None, "idle": ["t"]})
        assert shown("idle") == {f"{idle} 1.0"}
        assert shown("loading") == {f"{loading} 1.0"}
        metrics.loading({**facts, "event": "loaded"})
        metrics.batch({**facts, "nodes": {}, "watermark": None, "idle": []})
        assert shown("idle") == {f"{idle} 0.0"}
        assert shown("loading") == {f"{loading} 0.0"}
    finally:
        metrics.ended({})
