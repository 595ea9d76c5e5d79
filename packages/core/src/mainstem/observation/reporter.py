"""Who is told what happens in a run, and JSON lines of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mainstem.plan.model import Plan

#: A batch in hand is told by JSON lines once it has taken so many seconds, and each time it has doubled.
_LONG = 5.0


class Reporter(Protocol):
    """Is told what happens in a run."""

    def doing(self, facts: Mapping[str, Any]) -> None:
        """What is done now, told again and again: `what`, for `seconds`.

        Of a query: `batch` is in hand, and `node` the sink that is being written, if one is.
        """

    def started(self, plan: Plan) -> None:
        """The queries are about to start."""

    def batch(self, facts: Mapping[str, Any]) -> None:
        """A batch is finished."""

    def helper(self, facts: Mapping[str, Any]) -> None:
        """A helper process told what it does."""

    def loading(self, facts: Mapping[str, Any]) -> None:
        """A query loads what it must know first, or has loaded it: `event` says which."""

    def restarted(self, facts: Mapping[str, Any]) -> None:
        """A query failed for no fault of its own, and was restarted; `why` says for what."""

    def lag(self, facts: Mapping[str, Any]) -> None:
        """The lag of a query's sources, measured while no batch ended; empty where it is not known."""

    def unstopped(self, facts: Mapping[str, Any]) -> None:
        """A query did not stop, and is left as it is; `why` says what Spark told."""

    def tick(self) -> None:
        """Some time has passed."""

    def ended(self, summary: Mapping[str, Any]) -> None:
        """No query runs any more."""


class Silent:
    """Shows nothing."""

    def doing(self, facts: Mapping[str, Any]) -> None:
        pass

    def started(self, plan: Plan) -> None:
        pass

    def batch(self, facts: Mapping[str, Any]) -> None:
        pass

    def helper(self, facts: Mapping[str, Any]) -> None:
        pass

    def loading(self, facts: Mapping[str, Any]) -> None:
        pass

    def restarted(self, facts: Mapping[str, Any]) -> None:
        pass

    def lag(self, facts: Mapping[str, Any]) -> None:
        pass

    def unstopped(self, facts: Mapping[str, Any]) -> None:
        pass

    def tick(self) -> None:
        pass

    def ended(self, summary: Mapping[str, Any]) -> None:
        pass


class JSONLines(Silent):
    """Writes one JSON line for each batch, for news of helpers and queries, and for the summary.

    Args:
        to_errors: whether to standard error: rows go to standard output.
    """

    def __init__(self, *, to_errors: bool = False) -> None:
        self._to_errors = to_errors
        self._states: dict[str, Any] = {}
        #: By query, what it was last told to do, and after how many seconds that is worth a line.
        self._told: dict[str, tuple[Any, float]] = {}

    def doing(self, facts: Mapping[str, Any]) -> None:
        about, what = facts.get("query", ""), (facts["what"], facts.get("batch"))
        before, due = self._told.get(about, (None, 0.0))
        if what != before:
            due = _LONG if about else 0.0
        if facts["seconds"] >= due:
            due = 2 * facts["seconds"] if about else float("inf")
            self._print(facts)
        self._told[about] = what, due

    def started(self, plan: Plan) -> None:
        self._print({"event": "started", "pipeline": plan.pipeline, "file": plan.file})

    def batch(self, facts: Mapping[str, Any]) -> None:
        self._print(facts)

    def helper(self, facts: Mapping[str, Any]) -> None:
        news = (facts.get("state"), facts.get("why"), facts.get("ready"))
        if self._states.get(facts["helper"]) != news:
            self._states[facts["helper"]] = news
            self._print(facts)

    def loading(self, facts: Mapping[str, Any]) -> None:
        self._print(facts)

    def restarted(self, facts: Mapping[str, Any]) -> None:
        self._told.pop(facts["query"], None)
        self._print(facts)

    def unstopped(self, facts: Mapping[str, Any]) -> None:
        self._print(facts)

    def ended(self, summary: Mapping[str, Any]) -> None:
        self._print(summary)

    def _print(self, facts: Mapping[str, Any]) -> None:
        stream = sys.stderr if self._to_errors else sys.stdout
        print(json.dumps(facts, default=str), file=stream, flush=True)


class Several(Silent):
    """Tells several reporters all that it is told.

    Args:
        reporters: in the order in which they are told.
    """

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters


def _to_each(name: str) -> Callable[..., None]:
    def tell(several: Several, *told: Any) -> None:
        for reporter in several._reporters:
            getattr(reporter, name)(*told)

    return tell


for _name in [name for name in vars(Silent) if not name.startswith("_")]:
    setattr(Several, _name, _to_each(_name))


class HelperRow:
    """What the table shows of a helper process: how many rows it handles a second, and its state."""

    def __init__(self) -> None:
        self.facts: Mapping[str, Any] = {}
        self.rows = 0
        self._rate = 0.0
        self._before, self._at = 0, time.monotonic()

    def put(self, facts: Mapping[str, Any]) -> None:
        """Take what it told."""
        self.facts = {**self.facts, **facts}
        told, now = facts.get("rows"), time.monotonic()
        if isinstance(told, int):  # anybody's helper may tell something else
            self.rows = told
        if now - self._at >= 0.5:
            self._rate = max(0, self.rows - self._before) / (now - self._at)
            self._before, self._at = self.rows, now

    def shown(self, name: str) -> dict[str, str]:
        """Return the cells of its row."""
        state = self.facts.get("state", "")
        why = self.facts.get("why", "")
        doing = self.facts.get("doing", "")
        told = (
            doing if state == "running" else ": ".join(str(each) for each in (state, why) if each)
        )
        told = f" {told}"[:60] if told else ""
        return {
            "query / node": f"{name}{told}",
            "rows": f"{self.rows:,}",
            "rows/s": f"{self._rate:,.0f}",
        }
