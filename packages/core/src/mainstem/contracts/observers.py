"""Observers: what is told of a run, and changes nothing of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainstem.contracts.components import Component

if TYPE_CHECKING:
    from mainstem.plan.model import Plan


class Observer(Component):
    """Is told what happens in a run of a pipeline.

    Its methods are called in the driver, one after another, while no batch starts or ends: they return
    soon, and leave what takes long to a thread of their own. What they raise is a warning in the log; it
    ends no run. A replay, a preview and a test of a document tell nobody.
    """

    kind = "observer"

    def started(self, plan: Plan) -> None:
        """A run begins: Spark is up, and no query has started."""

    def batch(self, facts: Mapping[str, Any]) -> None:
        """A query has finished a batch.

        Args:
            facts: what `mainstem run` prints as one JSON line (docs/running.md): rows are counts,
                durations seconds, times ISO 8601 in UTC.
        """

    def ended(self, plan: Plan, error: BaseException | None) -> None:
        """The run has ended: by itself or by a signal, or because of an error.

        The error's words may hold a secret of the document: `plan.scrubber.clean` hides those.
        """
