"""What is known of a run at any moment, as plain values."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import Any

from mainstem.observation.reporter import HelperRow, Silent
from mainstem.observation.samples import Samples
from mainstem.observation.totals import Totals
from mainstem.plan.model import Node, Plan, Query, SinkNode
from mainstem.plan.rendering import as_json

#: Raised when a key changes its meaning or goes; new keys leave it as it is.
VERSION = 1
#: What is kept: the last hour in buckets of so many seconds, the newest batches, the newest events.
BUCKET, BUCKETS = 30, 120
_BATCHES, _EVENTS = 120, 100
#: For so many seconds the rows of the newest batch tell how many come.
_FRESH = 60


class History:
    """How much there was in each half minute of the last hour."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[int, float]] = deque(maxlen=BUCKETS)

    def add(self, amount: float, at: float) -> None:
        """Add what there was at a time, in seconds since 1970."""
        bucket = int(at // BUCKET)
        if self._buckets and self._buckets[-1][0] >= bucket:
            newest, before = self._buckets.pop()
            self._buckets.append((newest, before + amount))
        else:
            self._buckets.append((bucket, amount))

    def shown(self, now: float) -> list[float]:
        """Return the amounts, oldest first: from the first one of the last hour up to now."""
        known, last = dict(self._buckets), int(now // BUCKET)
        first = max(min(known, default=last), last - BUCKETS + 1)
        return [known.get(bucket, 0) for bucket in range(first, last + 1)]


@dataclass
class _Query:
    """What is known of a query."""

    doing: str = "waits"
    last: Mapping[str, Any] = field(default_factory=dict)
    #: When the newest batch was told, in seconds since 1970.
    ended: float = 0.0
    lag: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    batches: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_BATCHES))
    restarts: int = 0
    #: The batch in hand, when it began in seconds since 1970, and the sink that is being written.
    in_hand: tuple[int, float, str] | None = None


def _harmless(told: Callable[..., None]) -> Callable[..., None]:
    """Return what a picture is told by, so that whatever a plugin says ends no run."""

    @wraps(told)
    def call(picture: Picture, *given: Any) -> None:
        try:
            told(picture, *given)
        except Exception as error:
            kind = type(error).__name__
            logging.getLogger(__name__).warning(
                "what is shown of the run lacks something: %s", kind
            )

    return call


class Picture(Silent):
    """A reporter that keeps what it is told; others may look at it meanwhile, from any thread.

    Args:
        plan: what runs.
        clock: seconds since 1970.
        samples: the rows that nodes refused.
    """

    def __init__(
        self,
        plan: Plan,
        clock: Callable[[], float] = time.time,
        samples: Samples | None = None,
    ) -> None:
        self._clock = clock
        self._samples = samples or Samples()
        self._lock = threading.Lock()
        self._began = clock()
        self._state, self._doing = "starting", ""
        self._error: dict[str, Any] | None = None
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self._helpers: dict[tuple[str, str], HelperRow] = {}
        self._histories: dict[str, History] = {}
        self._begin(plan)

    def _begin(self, plan: Plan) -> None:
        self._plan, self._totals = plan, Totals(plan)
        self._shown = as_json(plan)
        self._options = {
            name: plan.scrubber.clean_all(_options(node)) for name, node in plan.nodes.items()
        }
        self._queries = {query.name: _Query() for query in plan.queries}

    # -- what it is told

    @_harmless
    def doing(self, facts: Mapping[str, Any]) -> None:
        with self._lock:
            if "query" not in facts:
                self._doing = facts["what"]
                return
            query = self._queries[facts["query"]]
            last = query.last.get("batch", -1)
            if facts["batch"] > last:  # not one that has just ended
                query.in_hand = facts["batch"], self._clock() - facts["seconds"], facts["node"]

    @_harmless
    def started(self, plan: Plan) -> None:
        with self._lock:
            self._state, self._doing = "running", ""
            self._begin(plan)
            self._tell("started", "the queries start")

    @_harmless
    def batch(self, facts: Mapping[str, Any]) -> None:
        now = self._clock()
        with self._lock:
            query = self._queries[facts["query"]]
            query.last, query.in_hand, query.ended = facts, None, now
            if query.doing in ("waits", "restarted"):
                query.doing = "runs"
            query.lag = facts.get("lag", query.lag)
            self._totals.add(facts)
            told = ("batch", "at", "seconds", "rows_in")
            query.batches.append({key: facts[key] for key in told})
            self._history(f"query {facts['query']}").add(facts["rows_in"], now)
            for name, counts in facts["nodes"].items():
                self._history(name).add(counts.get("rows", 0), now)

    @_harmless
    def helper(self, facts: Mapping[str, Any]) -> None:
        with self._lock:
            row = self._helpers.setdefault((facts["node"], facts["helper"]), HelperRow())
            before = row.facts.get("state")
            row.put(facts)
            state = row.facts.get("state")
            if state not in (before, "running"):
                why = f": {facts['why']}" if facts.get("why") else ""
                self._tell("helper", f"{facts['helper']} {state}{why}", node=facts["node"])

    @_harmless
    def loading(self, facts: Mapping[str, Any]) -> None:
        with self._lock:
            reads = ", ".join(facts["reads"])
            self._queries[facts["query"]].doing = (
                f"loads {reads}" if facts["event"] == "loading" else "runs"
            )
            self._tell(facts["event"], reads, query=facts["query"])

    @_harmless
    def restarted(self, facts: Mapping[str, Any]) -> None:
        with self._lock:
            query = self._queries[facts["query"]]
            query.restarts += 1
            query.doing, query.in_hand = "restarted", None
            self._tell("restarted", facts["why"], query=facts["query"])

    @_harmless
    def lag(self, facts: Mapping[str, Any]) -> None:
        with self._lock:
            self._queries[facts["query"]].lag = facts["lag"]

    @_harmless
    def unstopped(self, facts: Mapping[str, Any]) -> None:
        with self._lock:
            self._queries[facts["query"]].doing = "does not stop"
            self._tell("unstopped", facts["why"], query=facts["query"])

    @_harmless
    def ended(self, summary: Mapping[str, Any]) -> None:
        with self._lock:
            if self._state != "ended":
                self._state = "ended"
                self._tell("ended", "no query runs any more")

    def failed(self, error: BaseException) -> None:
        """The run ends because of an error."""
        with self._lock:
            self._state = "failed"
            node = getattr(error, "node", None)
            self._error = {"node": node, "text": str(error) or type(error).__name__}
            self._tell("failed", self._error["text"], node=node)

    def _tell(self, event: str, text: str, **about: Any) -> None:
        self._events.append({"at": _text(self._clock()), "event": event, **about, "text": text})

    def _history(self, name: str) -> History:
        return self._histories.setdefault(name, History())

    # -- what it shows

    def facts(self) -> dict[str, Any]:
        """Return all of it as JSON has it, without the document's secrets.

        Rows are counts, times ISO 8601 in UTC, durations seconds.
        """
        now = self._clock()
        with self._lock:
            plan, clean = self._plan, self._plan.scrubber.clean_all
            return {
                "version": VERSION,
                "pipeline": plan.pipeline,
                "file": plan.file,
                "process": os.getpid(),
                "state": self._state,
                "doing": self._doing,
                "error": clean(self._error),
                "started": _text(self._began),
                "now": _text(now),
                "bucket": BUCKET,
                "queries": [self._query(query, now) for query in plan.queries],
                "nodes": list(self._nodes(now)),
                "edges": list(self._edges(now)),
                "helpers": [
                    {
                        "node": node,
                        "name": name,
                        "facts": clean(_plain(row.facts)),
                        "shown": clean(row.shown(name)),
                    }
                    for (node, name), row in self._helpers.items()
                ],
                "warnings": clean(self._shown["warnings"]),
                "events": clean(list(self._events)),
            }

    def _query(self, query: Query, now: float) -> dict[str, Any]:
        known, last = self._queries[query.name], self._queries[query.name].last
        totals = self._totals.queries[query.name]
        told = ("batch", "at", "seconds", "rows_in", "rows_per_second", "watermark")
        batch = None
        if known.in_hand is not None:
            number, began, node = known.in_hand
            batch = {"batch": number, "seconds": round(now - began, 1), "node": node}
        return {
            "name": query.name,
            "anchor": query.anchor,
            "nodes": [
                {
                    "name": name,
                    "totals": self._totals.nodes[query.name].get(name, {}),
                    "last": last.get("nodes", {}).get(name, {}),
                }
                for name in _all(query)
            ],
            "doing": known.doing,
            "restarts": known.restarts,
            "last": {key: last[key] for key in told} if last else None,
            "state_rows": last.get("state_rows", 0),
            "batches": totals["batches"],
            "rows_in": totals["rows_in"],
            "late_rows": totals["late_rows"],
            "in_hand": batch,
            "idle": list(last.get("idle", ())),
            "lag": known.lag,
            "newest": list(known.batches),
            "history": self._history(f"query {query.name}").shown(now),
        }

    def _nodes(self, now: float) -> Iterator[dict[str, Any]]:
        promises = {each["sink"]: each for each in self._shown["guarantees"]}
        for told in self._shown["nodes"]:
            name = told["name"]
            node = self._plan.nodes[name]
            yield {
                **{key: told[key] for key in ("name", "kind", "use", "from", "shape", "watermark")},
                "outputs": list(told["outputs"]),
                "keeps_state": node.state is not None,
                "options": self._options[name],
                "guarantee": promises.get(name),
                "totals": self._counts(name, self._queries),
                "lag": next((q.lag[name] for q in self._queries.values() if name in q.lag), None),
                "history": self._history(name).shown(now),
                "refused": self._plan.scrubber.clean_all(self._samples.refused(name)),
            }

    def _edges(self, now: float) -> Iterator[dict[str, Any]]:
        for node in self._plan.nodes.values():
            for port, streams in node.inputs.items():
                for stream in streams:
                    yield self._edge(stream.node, stream.output, node.name, port, now)
        for relay in self._plan.relays:
            yield self._edge(relay.sink, "", relay.source, "relay", now)

    def _edge(self, above: str, output: str, below: str, port: str, now: float) -> dict[str, Any]:
        """Return the rows of an edge, by the queries in which its end takes part."""
        key = output or "rows"
        counted = below if port == "relay" else above
        queries = [q.name for q in self._plan.queries if below in _all(q)]
        lasts = [self._queries[name].last for name in queries]
        newest = max(filter(None, lasts), key=lambda facts: str(facts["at"]), default={})
        fresh = any(now - self._queries[name].ended < _FRESH for name in queries)
        rows = newest.get("nodes", {}).get(counted, {}).get(key, 0) if fresh else 0
        return {
            "from": above,
            "output": output,
            "to": below,
            "port": port,
            "rows": self._counts(counted, queries).get(key, 0),
            "rows_per_second": _rate(rows, newest.get("seconds")),
        }

    def _counts(self, name: str, queries: Iterable[str]) -> dict[str, int]:
        """Return the counts of a node: of several queries that read the same rows, the highest."""
        found: dict[str, int] = {}
        for query in queries:
            for key, count in self._totals.nodes[query].get(name, {}).items():
                found[key] = max(found.get(key, 0), count)
        return found


def _all(query: Query) -> tuple[str, ...]:
    """Return the nodes that take part in a query."""
    return (*query.streaming, *query.per_batch, *query.sinks)


def _options(node: Node) -> dict[str, Any]:
    """Return the options that a document gives a node, as JSON has them; secrets are stars."""
    try:
        found = node.component.options.model_dump(
            mode="json", by_alias=True, exclude_unset=True, fallback=str
        )
    except ValueError:  # a plugin's own, of which pydantic makes no JSON
        return {}
    if isinstance(node, SinkNode):
        found = {"deliver": node.delivery_word, **found}
    return found


def _plain(facts: Mapping[str, Any]) -> Any:
    """Return what a helper told as JSON has it: numbers that are none, as nothing."""
    told = json.dumps(dict(facts), default=str)
    return json.loads(told, parse_constant=lambda _: None)


def _rate(rows: int, seconds: float | None) -> float:
    return round(rows / seconds, 1) if seconds else 0.0


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
