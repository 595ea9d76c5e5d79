"""Observers: what is told of a run, and changes nothing of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from mainstem.contracts.components import Component
from mainstem.plan.model import Plan


class Observer(Component):
    """Is told what happens in a run of a pipeline.

    Its methods are called in the driver, one after another, by what watches the queries: they return
    soon, and leave what takes long to a thread of their own. What they raise is a warning in the log;
    it ends no run. A replay, a preview and a test of a document tell nobody.
    """

    kind = "observer"

    def started(self, plan: Plan) -> None:
        """A run begins: Spark is up, and no query has started."""

    def batch(self, facts: Mapping[str, Any]) -> None:
        """A query has finished a batch.

        Args:
            facts: what `mainstem run` prints as one JSON line (docs/running.md): rows are counts,
                durations seconds, times ISO 8601 in UTC. Beside that, `headers` has some values of
                each header that observers have asked for, by its name.
        """

    def header(self) -> str | None:
        """Return the name of a header of messages of which the facts of a batch are to have some values.

        They are taken in queries without steps that keep state, which costs as much as to keep the batch.
        """
        return None

    def ended(self, plan: Plan, error: BaseException | None) -> None:
        """The run has ended: by itself or by a signal, or because of an error.

        The error's words may hold a secret of the document: `plan.scrubber.clean` hides those.
        """


class Observers:
    """The observers of a plan, none of whose faults ends a run.

    Args:
        plan: what runs.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def headers(self) -> frozenset[str]:
        """Return the headers of messages that observers ask for."""
        asked = [self._tell_one(name, "header") for name in self._plan.observers]
        return frozenset(each for each in asked if each)

    def started(self, plan: Plan) -> None:
        """A run begins."""
        self._tell("started", plan)

    def batch(self, facts: Mapping[str, Any]) -> None:
        """A query has finished a batch."""
        self._tell("batch", facts)

    def ended(self, plan: Plan, error: BaseException | None) -> None:
        """The run has ended."""
        self._tell("ended", plan, error)

    def _tell(self, what: str, *told: Any) -> None:
        with ExitStack() as telling:  # each, whatever interrupts another
            for name in reversed([*self._plan.observers]):
                telling.callback(self._tell_one, name, what, *told)

    def _tell_one(self, name: str, what: str, *told: Any) -> Any:
        try:
            return getattr(self._plan.observers[name], what)(*told)
        except Exception as error:
            words = self._plan.scrubber.clean(f"{type(error).__name__}: {error}")
            logging.getLogger(__name__).warning("observer %s, %s: %s", name, what, words)
            return None
