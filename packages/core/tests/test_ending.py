"""How a run ends when something goes wrong: what went wrong first is told, and nothing else is left out."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from mainstem import PipelineError
from mainstem.observation.observers import Observers
from mainstem.observation.reporter import JSONLines, Silent
from mainstem.observation.totals import Totals
from mainstem.plan.build import make_plan
from mainstem.run.runner import Run
from mainstem.run.running_query import RunningQuery

STUCK = RuntimeError(
    "java.util.concurrent.TimeoutException: failed to stop within 60000 milliseconds"
)


class Told(Silent):
    """Keeps what it is told of queries that do not stop, and whether the run has ended."""

    def __init__(self) -> None:
        self.unstopped_: list[Any] = []
        self.ended_ = False

    def unstopped(self, facts: Any) -> None:
        self.unstopped_.append(facts)

    def ended(self, summary: Any) -> None:
        self.ended_ = True


class Stuck(RunningQuery):
    """A query that runs and does not stop."""

    above = frozenset()  # type: ignore[assignment]

    def __init__(self, reporter: Told, calls: list[str]) -> None:
        self.name = "stuck"
        self._plan: Any = SimpleNamespace(pipeline="p")
        self._reporter = reporter
        self._batches: Any = SimpleNamespace(stopping=threading.Event())
        self._running: Any = SimpleNamespace(
            isActive=True, status={"isTriggerActive": False}, stop=self._refuse
        )
        self._lag: Any = SimpleNamespace(close=lambda: calls.append("lag closed"))
        self.calls = calls

    def _refuse(self) -> None:
        raise STUCK

    def _explained(self, error: BaseException) -> PipelineError:
        return PipelineError(f"query stuck: {error}")

    def _let_go(self, query: Any) -> None:
        self.calls.append("let go")

    def _drain(self, report: Any) -> None:
        self.calls.append("drained")


class Failing(RunningQuery):
    """A query that fails as soon as it is watched."""

    above = frozenset()  # type: ignore[assignment]

    def __init__(self, error: BaseException) -> None:
        self.name = "failing"
        self._running = None
        self.error = error

    def watch(self, report: Any, stop: threading.Event) -> bool:
        raise self.error


def test_a_query_that_does_not_stop_does_not_hide_what_went_wrong_first():
    """Pass: the first error is raised, the other query is told of, let go of and its batches reported."""
    told, calls = Told(), []
    run = Run.__new__(Run)
    run.queries = [Stuck(told, calls), Failing(PipelineError("the disk is full"))]
    run.queries[0].watch = lambda *_: True  # type: ignore[method-assign]
    run.stop, run.helpers, run.publishing, run.reporter = threading.Event(), None, None, told
    with pytest.raises(PipelineError, match="the disk is full"):
        run._drive(lambda _: None, run.queries)
    assert calls == ["let go", "drained", "lag closed"]
    (facts,) = told.unstopped_
    assert facts["event"] == "unstopped"
    assert facts["query"] == "stuck"
    assert "failed to stop within 60000" in facts["why"]
    assert run.queries[0]._running is None


def test_a_query_that_does_not_stop_when_it_should_ends_the_run_in_words():
    """Pass: the error names the query."""
    query, stop = Stuck(Told(), []), threading.Event()
    stop.set()
    with pytest.raises(PipelineError, match="query stuck: .*failed to stop"):
        query.watch(None, stop)


def test_one_that_does_not_stop_is_a_json_line(capsys):
    """Pass: as it was told."""
    JSONLines().unstopped({"event": "unstopped", "query": "q"})
    assert capsys.readouterr().out == '{"event": "unstopped", "query": "q"}\n'


@pytest.mark.parametrize(
    "error",
    [PipelineError("no"), RuntimeError("a bug"), KeyboardInterrupt(), SystemExit(3)],
    ids=lambda error: type(error).__name__,
)
def test_whoever_observes_a_run_is_told_with_what_it_ended(error):
    """Pass: observers have the very error, of whatever kind, and the reporter is told of the end."""
    lines = {"use": "files", "with": {"path": "in", "format": "message"}}
    plan = make_plan(
        {
            "pipeline": "p",
            "sources": {"lines": lines},
            "sinks": {"out": {"use": "console", "from": "lines"}},
        }
    )
    ended: list[Any] = []
    observer = SimpleNamespace(
        started=lambda plan: None, ended=lambda plan, error: ended.append(error)
    )
    run, told = Run.__new__(Run), Told()
    run.plan = SimpleNamespace(
        observers={"one": observer},
        document=plan.document,
        nodes={},
        queries=(),
        pipeline="p",
        flush=False,
        file="",
    )
    run.queries, run.totals, run.stop, run.reporter = [], Totals(plan), threading.Event(), told
    run.observers = Observers(run.plan)

    def fails() -> None:
        raise error

    run.prepare = lambda: None  # type: ignore[method-assign]
    run.once = fails  # type: ignore[method-assign]
    with pytest.raises(type(error)):
        run.whole()
    assert ended == [error]
    assert told.ended_
    run.prepare = fails  # type: ignore[method-assign]  # before any query: a database that is away
    with pytest.raises(type(error)):
        run.whole()
    assert ended == [error, error]

    def closed(_summary: object) -> None:
        raise BrokenPipeError

    run.prepare = run.once = lambda: None  # type: ignore[method-assign]
    told.ended = closed  # type: ignore[method-assign]  # nobody reads the lines any more
    with pytest.raises(BrokenPipeError):
        run.whole()
    assert len(ended) == 3
