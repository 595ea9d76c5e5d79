"""Rows that pass a node while a run goes on, for who asks for them; and the newest that were refused."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mainstem.errors import PipelineError, nearest
from mainstem.plan.model import Plan, Query, SinkNode, Stream

#: Who asked is taken to look on for so many seconds.
_PATIENCE = 10.0
#: How many rows wait for who asked, and how many refused ones are kept of a node.
_WAITING, REFUSED = 1_000, 5


@dataclass
class _Asked:
    """A stream that somebody looks at."""

    until: float
    most: int
    rows: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_WAITING))


class Samples:
    """What batches leave of their rows; asked for and put here from different threads.

    Args:
        show_rows: whether refused rows are kept, and shown with their content.
        clock: seconds.

    Attributes:
        headers: the headers of messages of which some values are taken.
    """

    def __init__(
        self, *, show_rows: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.show_rows = show_rows
        self._clock = clock
        self._lock = threading.Lock()
        self._plan: Plan | None = None
        self._queries: dict[str, str] = {}
        self._asked: dict[str, _Asked] = {}
        self._refused: dict[str, deque[dict[str, Any]]] = {}
        self._number = 0
        self.headers: frozenset[str] = frozenset()
        self._values: dict[tuple[str, int], Mapping[str, Sequence[str]]] = {}

    def begin(self, plan: Plan, headers: frozenset[str] = frozenset()) -> None:
        """Take what runs, and which headers of messages are asked for."""
        with self._lock:
            self._plan, self._queries, self.headers = plan, {}, headers
            for query in plan.queries:
                for stream in _seen(plan, query):
                    self._queries.setdefault(str(stream), query.name)

    # -- who looks

    def ask(self, name: str, after: int = 0, most: int = 5) -> dict[str, Any]:
        """Return the rows of a stream since it was asked for, and go on taking them for a while.

        Args:
            name: `node` or `node.output`; of a sink, the rows it is given.
            after: the number of the last row that is known, as `last` told it.
            most: the most rows to take of a batch.

        Raises:
            PipelineError: there is no such stream, or its rows can't be seen.
        """
        with self._lock:
            plan = self._plan
            if plan is None:
                return {"rows": [], "last": after}
            if name not in self._queries:
                raise PipelineError(_unseen(name, plan, list(self._queries)))
            asked = self._asked.setdefault(name, _Asked(0.0, most))
            asked.until, asked.most = self._clock() + _PATIENCE, most
            rows = [row for row in asked.rows if row["number"] > after]
            return {
                "rows": plan.scrubber.clean_all(rows),
                "last": rows[-1]["number"] if rows else after,
            }

    def refused(self, node: str) -> list[dict[str, Any]]:
        """Return the newest refused rows of a node, newest first."""
        with self._lock:
            return list(self._refused.get(node, ()))[::-1]

    # -- the run

    def wanted(self, query: str) -> Mapping[str, int]:
        """Return the streams of a query that somebody looks at now, and the most rows of each."""
        with self._lock:
            now = self._clock()
            for name in [name for name, asked in self._asked.items() if asked.until < now]:
                del self._asked[name]
            return {
                name: asked.most
                for name, asked in self._asked.items()
                if self._queries.get(name) == query
            }

    def put(self, name: str, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Leave rows of a stream that were in a batch."""
        with self._lock:
            asked = self._asked.get(name)
            if asked is None:
                return
            for row in rows:
                self._number += 1
                asked.rows.append({"number": self._number, "batch": batch, "row": row})

    def put_values(self, query: str, batch: int, values: Mapping[str, Sequence[str]]) -> None:
        """Leave values of the headers that are asked for, by their names."""
        with self._lock:
            self._values[query, batch] = values

    def values(self, query: str, batch: int) -> Mapping[str, Sequence[str]]:
        """Return what a batch has left of headers, once; what earlier ones have is dropped."""
        with self._lock:
            found = self._values.pop((query, batch), {})
            for key in [key for key in self._values if key[0] == query and key[1] < batch]:
                del self._values[key]
            return found

    def put_refused(self, node: str, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Leave rows that a node refused in a batch."""
        with self._lock:
            kept = self._refused.setdefault(node, deque(maxlen=REFUSED))
            kept.extend({"batch": batch, **row} for row in rows)


def _seen(plan: Plan, query: Query) -> list[Stream]:
    """Return the streams whose rows a query's batches have in hand: from its tail on."""
    found = []
    for name in (query.tail, *query.per_batch, *query.sinks):
        node = plan.nodes[name]
        outputs = ["rejected"] if isinstance(node, SinkNode) else list(node.outputs)
        found += [Stream(name), *(Stream(name, output) for output in outputs)]
    return found


def _unseen(name: str, plan: Plan, seen: Sequence[str]) -> str:
    node, _, output = name.partition(".")
    if node in plan.nodes and (not output or output in plan.nodes[node].outputs):
        taking = [query for query in plan.queries if node in query.streaming]
        if taking:
            return (
                f"the rows of {name} stay inside Spark until {taking[0].tail} has taken them in: "
                f"look at that, or at {name} by `mainstem preview`"
            )
        return f"no query reads {name}"
    hint = nearest(name, seen) or f"There are: {', '.join(seen)}."
    return f"there is no {name!r} to look at. {hint}"
