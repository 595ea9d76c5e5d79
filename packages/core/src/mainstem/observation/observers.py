"""Tells a document's observers what happens in a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mainstem.plan.model import Plan


class Observers:
    """The observers of a plan, none of whose faults ends a run.

    Args:
        plan: what runs.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

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
        for name, observer in self._plan.observers.items():
            try:
                getattr(observer, what)(*told)
            except Exception as error:
                words = self._plan.scrubber.clean(f"{type(error).__name__}: {error}")
                logging.getLogger(__name__).warning("observer %s, %s: %s", name, what, words)
