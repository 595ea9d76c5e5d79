"""Tells sources how far finished batches have read them, so that they can publish it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from mainstem.contracts.abilities import AfterBatch
from mainstem.history import History
from mainstem.observation.reporter import Reporter
from mainstem.plan.bootstrap import read_name
from mainstem.plan.model import Plan
from mainstem.run.background import Beside

#: How long a source may take to publish when a run ends, in seconds.
_ENDING = 10.0


class Publishing:
    """What the sources of a plan publish; use it in a `with`.

    A thread of its own tells the sources, so that a broker that does not answer holds up no batch. It
    tells what is newest; what came between is never told. Replays and previews publish nothing.

    Args:
        reporter: is told when a source can't publish, and when it can again.
        histories: by query, what Spark's checkpoint tells.
    """

    def __init__(self, plan: Plan, reporter: Reporter, histories: Mapping[str, History]) -> None:
        self._plan = plan
        self._reporter = reporter
        self._histories = histories
        self._sources = {
            name: node.source
            for name, node in plan.nodes.items()
            if plan.derived_from is None and isinstance(node.component, AfterBatch)
        }
        self._told: dict[str, list[Any]] = {}
        self._failing: set[str] = set()
        self._news: deque[dict[str, Any]] = deque()
        self._beside = Beside("publishing", self._work)

    def __enter__(self) -> Publishing:
        if self._sources:
            self._beside.start()
            self.tell()  # what a run that was killed had no time for
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.tell()
        self._beside.close()
        if self._sources:
            self._beside.join(_ENDING)
        self.watch()

    def tell(self) -> None:
        """Let the sources know that a batch was finished; returns at once."""
        self._beside.want()

    def watch(self) -> None:
        """Pass on what happened since; called in the runner's own thread."""
        while self._news:
            self._reporter.helper(self._news.popleft())

    def _work(self) -> None:
        for name in self._sources:
            self._publish(name)

    def _publish(self, name: str) -> None:
        try:
            ends = self._ends(name)
            if ends == self._told.get(name) or all(end is None for end in ends):
                return
            source = self._sources[name]
            assert isinstance(source, AfterBatch)  # noqa: S101
            source.after_batch(ends)
        except Exception as error:
            self._failing.add(name)
            self._say(name, "failing", f"{type(error).__name__}: {error}")
            return
        self._told[name] = ends
        if name in self._failing:
            self._failing.discard(name)
            self._say(name, "running", "")

    def _ends(self, name: str) -> list[Any]:
        """Return the end of each read of a source, as the checkpoints have it."""
        ends = []
        for query in self._plan.queries:
            if not query.reads.get(name):
                continue
            history = self._histories[query.name]
            batch = history.last()
            found = {} if batch is None else history.offsets(batch).ends
            for number in range(1, query.reads[name] + 1):
                ends.append(found.get(read_name(name, number)))
        return ends

    def _say(self, name: str, state: str, why: str) -> None:
        self._news.append(
            {
                "event": "helper",
                "pipeline": self._plan.pipeline,
                "node": name,
                "helper": f"{name} progress",
                "state": state,
                "why": self._plan.scrubber.clean(why),
            }
        )
