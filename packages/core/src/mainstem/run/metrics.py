"""The facts of a run for Prometheus, and `/healthz`.

`/healthz` answers 200 while the queries run, and 503 before; nobody answers after the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mainstem.contracts.abilities import Measurable
from mainstem.errors import MachineError
from mainstem.event_time import from_text
from mainstem.run.reporter import Reporter

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from mainstem.plan.model import Plan


LOOPBACK = "127.0.0.1"


class Metrics:
    """A reporter that serves the facts over HTTP and passes them on.

    Args:
        port: where to serve; 0 takes a free one.
        inner: is told everything too.
        host: the address to serve at, or its name; this machine alone when left out.

    Attributes:
        url: where they are.

    Raises:
        MachineError: the port is taken, or the host is none of this machine's.
    """

    def __init__(self, port: int, inner: Reporter, host: str = LOOPBACK) -> None:
        from wsgiref.simple_server import make_server

        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

        self._inner = inner
        self._healthy = False
        #: By query, the nodes that can be idle.
        self._patient: dict[str, list[str]] = {}
        #: By query, the sources that tell their lag.
        self._measured: dict[str, set[str]] = {}
        #: By node and helper, how many rows it had told.
        self._taken: dict[tuple[str, str], int] = {}
        registry = CollectorRegistry()

        def of_pipeline(kind: type[Any], name: str, text: str, *labels: str) -> Any:
            return kind(f"mainstem_{name}", text, ["pipeline", *labels], registry=registry)

        def made(kind: type[Any], name: str, text: str, *labels: str) -> Any:
            return of_pipeline(kind, name, text, "query", *labels)

        self._rows = made(Counter, "rows", "Rows that a node gave.", "node", "output")
        self._batches = made(Histogram, "batch_seconds", "Time of finished batches.")
        self._late = made(Counter, "late_rows", "Rows dropped behind the watermark.")
        self._state = made(Gauge, "state_rows", "Rows in the state.")
        self._loading = made(Gauge, "loading", "1 while a query loads what it must know first.")
        self._restarts = made(Counter, "restarts", "Restarts of a query, for no fault of its own.")
        self._idle = made(Gauge, "idle", "1 while a node is idle, see `idle_after`.", "node")
        self._watermark = made(Gauge, "watermark_seconds", "The watermark, since 1970.")
        self._lag_rows = made(Gauge, "lag_rows", "Rows that are there and not read.", "source")
        self._lag = made(Gauge, "lag_seconds", "Age of the oldest row not read.", "source")
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
            self._server = make_server(
                host, port, app, _server_for(host), handler_class=_quiet_handler()
            )
        except OSError as error:
            why = error.strerror or error
            raise MachineError(f"can't serve metrics on {host}:{port}: {why}") from None
        self.port = self._server.server_port
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/metrics"
        _serve(self._server)

    def started(self, plan: Plan) -> None:
        """The queries are about to start."""
        self._healthy = True
        for query in plan.queries:
            labels = (plan.pipeline, query.name)
            self._loading.labels(*labels).set(0)
            self._restarts.labels(*labels)  # told from the start, as 0
            patient = [name for name in query.streaming if plan.nodes[name].idle_after]
            self._patient[query.name] = patient
            for name in patient:
                self._idle.labels(*labels, name).set(0)
            sources = {n for n in query.reads if isinstance(plan.nodes[n].component, Measurable)}
            self._measured[query.name] = sources
            self._put_lag({"pipeline": plan.pipeline, "query": query.name})
        self._inner.started(plan)

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
        self._inner.helper(facts)

    def loading(self, facts: Mapping[str, Any]) -> None:
        """Tell whether a query loads what it must know first."""
        labels = (facts["pipeline"], facts["query"])
        self._loading.labels(*labels).set(facts["event"] == "loading")
        self._inner.loading(facts)

    def restarted(self, facts: Mapping[str, Any]) -> None:
        """Count that a query was restarted."""
        self._restarts.labels(facts["pipeline"], facts["query"]).inc()
        self._inner.restarted(facts)

    def unstopped(self, facts: Mapping[str, Any]) -> None:
        """A query did not stop."""
        self._inner.unstopped(facts)

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
        self._late.labels(*labels).inc(facts["late_rows"])
        self._state.labels(*labels).set(facts["state_rows"])
        if facts["watermark"]:
            when = from_text(facts["watermark"])
            self._watermark.labels(*labels).set(when.timestamp())
        self._put_lag(facts)
        self._inner.batch(facts)

    def lag(self, facts: Mapping[str, Any]) -> None:
        """Tell how far behind a query is."""
        self._put_lag(facts)
        self._inner.lag(facts)

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

    def tick(self) -> None:
        """Some time has passed."""
        self._inner.tick()

    def ended(self, summary: Mapping[str, Any]) -> None:
        """Stop serving: no query runs any more."""
        self._healthy = False
        self._server.shutdown()
        self._server.server_close()
        self._inner.ended(summary)


def _server_for(host: str) -> Any:
    """Return the class of a server that answers requests side by side, at a host's kind of address."""
    import socket

    from prometheus_client.exposition import ThreadingWSGIServer

    family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    return type("Server", (ThreadingWSGIServer,), {"address_family": family})


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of `PORT`, `HOST:PORT` or `[HOST]:PORT`; this machine alone without a host.

    Raises:
        ValueError: it is none of these.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is neither a port nor HOST:PORT")
    return host.strip("[]") or LOOPBACK, int(port)


def _serve(server: Any) -> None:
    import threading

    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def _quiet_handler() -> Any:
    from wsgiref.simple_server import WSGIRequestHandler

    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Quiet
