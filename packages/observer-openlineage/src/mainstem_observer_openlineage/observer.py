"""Observer `openlineage`: events of a run, sent by a thread of their own."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainstem import Observer, Plan

from mainstem_observer_openlineage.options import OpenLineageOptions

if TYPE_CHECKING:
    from mainstem_observer_openlineage.events import Events

#: How many events may wait to be sent: of a server that takes none, no more are kept.
_MOST = 100
_LOG = logging.getLogger(__name__)


class OpenLineage(Observer):
    """Tells catalogues of data what a pipeline reads and writes, and which columns become which.

    One job for a document, and a run of it for each `mainstem run`. What the server does not take, after
    a few tries, is told in the log and lost: a run neither waits for it nor ends because of it.
    """

    options: OpenLineageOptions

    def __init__(self, options: OpenLineageOptions) -> None:
        super().__init__(options)
        self._events: Events | None = None

    def started(self, plan: Plan) -> None:
        from mainstem_observer_openlineage.events import Events

        self._events = Events(plan, self.options)
        self._told = time.monotonic()
        #: By query and node, how many rows there were of each output.
        self._rows: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._waiting: queue.Queue[Any] = queue.Queue(_MOST)
        self._sender = threading.Thread(target=self._send, name="openlineage", daemon=True)
        self._sender.start()
        self._put(self._events.start())

    def batch(self, facts: Mapping[str, Any]) -> None:
        if self._events is None:
            return
        for name, counts in facts["nodes"].items():
            self._rows[facts["query"], name].update(counts)
        if time.monotonic() - self._told >= self.options.every.total_seconds():
            self._told = time.monotonic()
            if self._waiting.empty():  # one that goes on is told by the next as well
                self._put(self._events.running(self._counts()))

    def ended(self, plan: Plan, error: BaseException | None) -> None:
        if self._events is None:
            return
        self._put(self._events.end(self._counts(), error))
        self._put(None)
        self._sender.join(self.options.give_up.total_seconds())
        if self._sender.is_alive():
            _LOG.warning("the last events of lineage were not taken in time (give_up)")
        self._events = None

    def _counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return the rows of each node by output: of queries that read the same, the highest."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for (_, name), counts in self._rows.items():
            found[name] |= counts
        return found

    def _put(self, event: Any) -> None:
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            _LOG.warning("an event of lineage is lost: %s wait to be sent", _MOST)

    def _send(self) -> None:
        transport: Any = None
        try:
            while (event := self._waiting.get()) is not None:
                try:
                    if transport is None:
                        transport = self._transport()
                    transport.emit(event)
                except Exception as error:
                    # The library's words may hold what was sent along with the event.
                    kind, state = type(error).__name__, event.eventType.value
                    _LOG.warning("the event %s of lineage was not taken: %s", state, kind)
        finally:
            if transport is not None:
                transport.close()

    def _transport(self) -> Any:
        from mainstem_observer_openlineage.events import transport_of

        return transport_of(self.options)
