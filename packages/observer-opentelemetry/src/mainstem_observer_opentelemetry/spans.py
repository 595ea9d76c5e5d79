"""Spans of a run: the one module that imports the vendor's library."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Any

from mainstem import Plan
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mainstem_observer_opentelemetry.options import OpenTelemetryOptions

_NAME = "mainstem"
_PARENTS = TraceContextTextMapPropagator()
_LOG = logging.getLogger(__name__)


class Spans:
    """The spans of one run, sent by a thread of the library's.

    Args:
        plan: what runs.
        options: where they go.
    """

    def __init__(self, plan: Plan, options: OpenTelemetryOptions) -> None:
        self._plan, self._options = plan, options
        exporter = OTLPSpanExporter(
            endpoint=options.url.get_secret_value(),
            headers={name: held.get_secret_value() for name, held in options.headers.items()},
            timeout=options.answer_timeout.total_seconds(),
        )
        release = version("mainstem")
        resource = Resource(
            {"service.name": options.service or plan.pipeline, "service.version": release}
        )
        self._provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(_NAME, release)
        self._run = self._tracer.start_span(
            f"run {plan.pipeline}", attributes={"mainstem.pipeline": plan.pipeline}
        )

    def batch(self, facts: Mapping[str, Any]) -> None:
        """Send the span of a finished batch.

        Args:
            facts: what an observer is told of it.
        """
        began = int(datetime.fromisoformat(facts["at"]).timestamp() * 1_000_000_000)
        span = self._tracer.start_span(
            f"batch {facts['query']}",
            kind=SpanKind.CONSUMER,
            links=[Link(self._run.get_span_context()), *_links(facts)],
            start_time=began,
            attributes=dict(_attributes(facts)),
        )
        span.end(began + int(facts["seconds"] * 1_000_000_000))

    def end(self, error: BaseException | None) -> None:
        """End the run's span, and wait until the last ones are sent, not for ever."""
        if error is not None:
            kind, told = type(error).__name__, str(self._plan.scrubber.clean(str(error)))
            self._run.add_event(
                "exception", {"exception.type": kind, "exception.message": told or kind}
            )
            self._run.set_status(Status(StatusCode.ERROR, told or kind))
        self._run.end()
        # The library waits for an answer that it waits for already, however long.
        closing = threading.Thread(target=self._provider.shutdown, name=_NAME, daemon=True)
        closing.start()
        closing.join(self._options.give_up.total_seconds())
        if closing.is_alive():
            _LOG.warning("the last spans were not taken in time (give_up)")


def _links(facts: Mapping[str, Any]) -> Iterator[Link]:
    """Yield the links to the traces that messages of a batch belong to."""
    for value in facts.get("headers", {}).get("traceparent", ()):
        found = get_current_span(_PARENTS.extract({"traceparent": value}, Context()))
        if found.get_span_context().is_valid:
            yield Link(found.get_span_context())


def _attributes(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("pipeline", "query", "batch", "rows_in", "late_rows", "state_rows", "watermark"):
        if facts.get(name) is not None:
            yield f"mainstem.{name}", facts[name]
    for node, counts in facts["nodes"].items():
        for output, count in counts.items():
            yield f"mainstem.nodes.{node}.{output}", count
