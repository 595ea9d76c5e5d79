"""A query that fails for no fault of its own is started anew, and not for ever."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from mainstem import PipelineError, Recovering
from mainstem.run.batches import Stopping
from mainstem.run.running_query import RunningQuery

LATE = RuntimeError("[STREAM_FAILED] ... Python worker failed to connect back.")


class Failed(RunningQuery):
    """A query that has ended with an error; each start does the same again."""

    def __init__(self, error: BaseException) -> None:
        self.name = "q"
        self.started = 0
        self.told: list[Any] = []
        self._restarts = 0
        self._failed: Any = None
        self._query: Any = SimpleNamespace(streaming=(), per_batch=(), sinks=())
        self._running: Any = SimpleNamespace(exception=lambda: error)
        self._batches: Any = SimpleNamespace(error=None, stopping=threading.Event())
        self._plan: Any = SimpleNamespace(pipeline="p", nodes={})
        self._reporter: Any = SimpleNamespace(restarted=self.told.append)

    def start(self) -> None:
        self.started += 1

    def _explained(self, error: BaseException) -> PipelineError:
        return PipelineError(str(error))


def test_a_process_that_never_comes_ends_the_run():
    """Pass: five starts, each told; then the failure."""
    query = Failed(LATE)
    for _ in range(5):
        assert query._restarted()
    with pytest.raises(PipelineError, match="connect back"):
        query._restarted()
    assert query.started == len(query.told) == 5
    assert "5 of 5" in query.told[-1]["why"]


def test_any_other_failure_ends_the_run_at_once():
    """Pass: no start."""
    query = Failed(RuntimeError("division by zero"))
    with pytest.raises(PipelineError, match="division"):
        query._restarted()
    assert not query.started


def test_nothing_is_started_anew_when_the_run_is_to_stop():
    """Pass: neither a failure nor a start; a query that was stopped by us has not failed either."""
    query = Failed(LATE)
    query._batches.stopping.set()
    assert not query._restarted()
    assert not Failed(Stopping())._restarted()
    assert not query.started


class Retried(Recovering):
    """A source that goes on once after what it knows."""

    known = True

    def recovers(self, failure: str) -> str:
        known, self.known = self.known, False
        return "read otherwise" if known and "overflow" in failure else ""


def test_a_source_that_can_go_on_is_loaded_anew():
    """Pass: the query is restarted, and told why; what the source knows no way on from ends the run."""
    query = Failed(RuntimeError("long overflow"))
    query._failed = PipelineError("the row was looked for")
    query._plan.nodes["messages"] = SimpleNamespace(component=Retried())
    query._query.streaming = ("messages",)
    assert query._restarted()
    assert query.told[-1]["why"] == "read otherwise (1 of 5)"
    with pytest.raises(PipelineError, match="overflow"):
        query._restarted()
    assert query.started == 1
