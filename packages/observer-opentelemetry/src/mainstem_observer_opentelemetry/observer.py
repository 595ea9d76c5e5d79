"""Observer `opentelemetry`: what a run did, as spans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainstem import Observer, Plan

from mainstem_observer_opentelemetry.options import OpenTelemetryOptions

if TYPE_CHECKING:
    from mainstem_observer_opentelemetry.spans import Spans


class OpenTelemetry(Observer):
    """Sends a span for each batch, and one for the run, to a collector of OpenTelemetry's.

    A batch is a trace of its own, which links to the span of its run, for a run may go on for months, and
    to the traces of some of its messages. What the collector does not take, after a few tries, is told in
    the log and lost.
    """

    options: OpenTelemetryOptions

    def __init__(self, options: OpenTelemetryOptions) -> None:
        super().__init__(options)
        self._spans: Spans | None = None

    def started(self, plan: Plan) -> None:
        from mainstem_observer_opentelemetry.spans import Spans

        self._spans = Spans(plan, self.options)

    def header(self) -> str | None:
        return "traceparent" if self.options.links else None

    def batch(self, facts: Mapping[str, Any]) -> None:
        if self._spans is not None:
            self._spans.batch(facts)

    def ended(self, plan: Plan, error: BaseException | None) -> None:
        spans, self._spans = self._spans, None
        if spans is not None:
            spans.end(error)
