"""The facts of a run for Prometheus, and `/healthz`.

`/healthz` answers 200 while the queries run, and 503 before; nobody answers after the end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mainstem.contracts.abilities import Measurable
from mainstem.errors import MachineError
from mainstem.event_time import from_text
from mainstem.observation.http import LOOPBACK, Server
from mainstem.observation.reporter import Silent

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from mainstem.plan.model import Plan


#: The upper ends of the buckets of latencies, in seconds: from a tenth to a day.
_LATENCIES = (0.1, 0.3, 1, 3, 10, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600)


class Metrics(Silent):
    """A reporter that serves the facts over HTTP.

    Args:
        port: where to serve; 0 takes a free one.
        host: the address to serve at, or its name; this machine alone when left out.

    Attributes:
        url: where they are.

    Raises:
        MachineError: the port is taken, or the host is none of this machine's.
    """

    def __init__(self, port: int, host: str = LOOPBACK) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

        self._healthy = False
        #: By query, its sinks.
        self._sinks: dict[str, tuple[str, ...]] = {}
        #: By query, the nodes that can be idle.
        self._patient: dict[str, list[str]] = {}
        #: By query, the sources that tell their lag.
        self._measured: dict[str, set[str]] = {}
        #: By node and helper, how many rows it had told.
        self._taken: dict[tuple[str, str], int] = {}
        registry = CollectorRegistry()

        def of_pipeline(kind: type[Any], name: str, text: str, *labels: str, **more: Any) -> Any:
            return kind(f"mainstem_{name}", text, ["pipeline", *labels], registry=registry, **more)

        def made(kind: type[Any], name: str, text: str, *labels: str) -> Any:
            return of_pipeline(kind, name, text, "query", *labels)

        self._rows = made(Counter, "rows", "Rows that a node gave.", "node", "output")
        self._batches = made(Histogram, "batch_seconds", "Time of finished batches.")
        self._ended = made(Gauge, "batch_ended_seconds", "When the newest batch ended, since 1970.")
        self._in_hand = made(
            Gauge, "batch_in_hand_seconds", "Time of the batch in hand; 0 for none."
        )
        self._behind = of_pipeline(
            Histogram, "sink_latency_seconds",
            "From the latest event time in a batch to when it was written.", "query", "sink",
            buckets=_LATENCIES,
        )  # fmt: skip
        self._guarantee = of_pipeline(
            Gauge, "guarantee", "1: what a sink's delivery guarantees.", "sink", "level", "deliver"
        )
        self._late = made(Counter, "late_rows", "Rows dropped behind the watermark.")
        self._state = made(Gauge, "state_rows", "Rows in the state.")
        self._loading = made(Gauge, "loading", "1 while a query loads what it must know first.")
        self._restarts = made(Counter, "restarts", "Restarts of a query, for no fault of its own.")
        self._idle = made(Gauge, "idle", "1 while a node is idle, see `idle_after`.", "node")
        self._watermark = made(Gauge, "watermark_seconds", "The watermark, since 1970.")
        self._lag_rows = made(Gauge, "lag_rows", "Rows that are there and not read.", "source")
        self._lag = made(Gauge, "lag_seconds", "Age of the oldest row not read.", "source")
        self._lags = of_pipeline(
            Histogram, "source_lag_seconds", "The same, each time that it was measured.",
            "query", "source", buckets=_LATENCIES,
        )  # fmt: skip
        of_helper = ("node", "helper")
        self._helper_gauges = of_pipeline(
            Gauge, "helper_value", "What a helper tells by a name with a unit.", *of_helper, "name"
        )
        self._helper_runs = of_pipeline(
            Gauge, "helper_running", "1 while a helper does its work.", *of_helper
        )
        self._helper_rows = of_pipeline(
            Counter, "helper_rows", "Rows that a helper handled.", *of_helper
        )
        self._helper_restarts = of_pipeline(
            Counter, "helper_restarts", "How often a helper ended and was restarted.", *of_helper
        )
        metrics: Callable[..., Iterable[bytes]] = make_wsgi_app(registry)

        def app(environ: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
            if environ["PATH_INFO"] != "/healthz":
                return metrics(environ, respond)
            text = "running" if self._healthy else "not running"
            respond(
                "200 OK" if self._healthy else "503 Service Unavailable",
                [("Content-Type", "text/plain")],
            )
            return [text.encode() + b"\n"]

        try:
            self._server = Server(app, host, port)
        except OSError as error:
            why = error.strerror or error
            raise MachineError(f"can't serve metrics on {host}:{port}: {why}") from None
        self.port = self._server.port
        self.url = f"{self._server.url}/metrics"

    def started(self, plan: Plan) -> None:
        """The queries are about to start."""
        self._healthy = True
        for sink in plan.sinks():
            level = sink.promise.level.value
            self._guarantee.labels(plan.pipeline, sink.name, level, sink.delivery_word).set(1)
        self._sinks = {query.name: query.sinks for query in plan.queries}
        for query in plan.queries:
            labels = (plan.pipeline, query.name)
            self._loading.labels(*labels).set(0)
            self._restarts.labels(*labels)  # told from the start, as 0
            self._in_hand.labels(*labels).set(0)
            self._ended.labels(*labels).set(time.time())  # none has ended since
            patient = [name for name in query.streaming if plan.nodes[name].idle_after]
            self._patient[query.name] = patient
            for name in patient:
                self._idle.labels(*labels, name).set(0)
            sources = {n for n in query.reads if isinstance(plan.nodes[n].component, Measurable)}
            self._measured[query.name] = sources
            self._put_lag({"pipeline": plan.pipeline, "query": query.name})

    def helper(self, facts: Mapping[str, Any]) -> None:
        """Tell whether a helper does its work, and count its rows, which it counts from its own start."""
        labels = (facts["pipeline"], facts["node"], facts["helper"])
        state, before = facts.get("state"), self._taken.get(labels[1:], 0)
        if state is not None:
            self._helper_runs.labels(*labels).set(state == "running")
        told = facts.get("rows")  # anybody's helper may tell it
        rows = 0 if state == "restarting" else told if isinstance(told, int) else before
        self._helper_rows.labels(*labels).inc(max(0, rows - before))
        self._taken[labels[1:]] = rows
        gauges = facts.get("gauges")
        for name, value in gauges.items() if isinstance(gauges, dict) else ():
            if isinstance(value, int | float):
                self._helper_gauges.labels(*labels, name).set(value)
        self._helper_restarts.labels(*labels).inc(state == "restarting")

    def loading(self, facts: Mapping[str, Any]) -> None:
        """Tell whether a query loads what it must know first."""
        labels = (facts["pipeline"], facts["query"])
        self._loading.labels(*labels).set(facts["event"] == "loading")

    def doing(self, facts: Mapping[str, Any]) -> None:
        """Tell how long the batch in hand has taken."""
        if "query" in facts:
            self._in_hand.labels(facts["pipeline"], facts["query"]).set(facts["seconds"])

    def restarted(self, facts: Mapping[str, Any]) -> None:
        """Count that a query was restarted."""
        self._restarts.labels(facts["pipeline"], facts["query"]).inc()
        self._in_hand.labels(facts["pipeline"], facts["query"]).set(0)

    def batch(self, facts: Mapping[str, Any]) -> None:
        """Count what a batch did."""
        labels = (facts["pipeline"], facts["query"])
        for name in self._patient.get(facts["query"], ()):
            self._idle.labels(*labels, name).set(name in facts["idle"])
        for node, counts in facts["nodes"].items():
            for name, count in counts.items():
                output = "" if name == "rows" else name
                self._rows.labels(*labels, node, output).inc(count)
        self._batches.labels(*labels).observe(facts["seconds"])
        ended = from_text(facts["at"]).timestamp() + facts["seconds"]
        self._ended.labels(*labels).set(ended)
        self._in_hand.labels(*labels).set(0)
        if facts.get("latest"):
            latest = max(from_text(at).timestamp() for at in facts["latest"].values())
            for sink in self._sinks.get(facts["query"], ()):
                if facts["nodes"].get(sink, {}).get("rows"):
                    self._behind.labels(*labels, sink).observe(max(0.0, ended - latest))
        self._late.labels(*labels).inc(facts["late_rows"])
        self._state.labels(*labels).set(facts["state_rows"])
        if facts["watermark"]:
            when = from_text(facts["watermark"])
            self._watermark.labels(*labels).set(when.timestamp())
        self._put_lag(facts)

    def lag(self, facts: Mapping[str, Any]) -> None:
        """Tell how far behind a query is."""
        self._put_lag(facts)

    def _put_lag(self, facts: Mapping[str, Any]) -> None:
        """Put the lag of each source that was ever told, or can tell; NaN where it is not known."""
        told, lags = self._measured.setdefault(facts["query"], set()), facts.get("lag", {})
        told.update(lags)
        for source in told:
            lag = lags.get(source, {})
            for gauge, key in ((self._lag_rows, "rows"), (self._lag, "seconds")):
                value = lag.get(key)
                number = math.nan if value is None else value
                gauge.labels(facts["pipeline"], facts["query"], source).set(number)
            if lag.get("seconds") is not None:
                self._lags.labels(facts["pipeline"], facts["query"], source).observe(lag["seconds"])

    def ended(self, summary: Mapping[str, Any]) -> None:
        """Stop serving: no query runs any more."""
        self._healthy = False
        self._server.close()
