"""Lets a node that has had no row for a while go on with the watermarks of a query's other nodes.

A query's watermark is the lowest of all its nodes', so one that is idle holds back the rest. The
runner moves it, by a control row, to where the others are; not beyond, so that it holds them back
again as soon as it has rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from mainstem.event_time import moved
from mainstem.plan.model import Node, Plan, Query
from mainstem.run.facts import timed
from mainstem.run.watermarks import Watermarks

#: A node that stays idle is moved again after this share of what made it idle, and not before
#: `_SECONDS`: Spark keeps a record of each control row for ever.
_SHARE = 10
_SECONDS = 1.0


class Idleness:
    """Which nodes of a query are idle, and how far they have been moved.

    Args:
        watermarks: writes the control rows.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        plan: Plan,
        query: Query,
        watermarks: Watermarks,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        nodes = [plan.nodes[name] for name in query.streaming if plan.nodes[name].watermark]
        self._watermarks = watermarks
        self._clock = clock
        self._timed: dict[str, Node] = {node.name: node for node in nodes}
        self.used = any(node.idle_after for node in nodes)
        self._heard = dict.fromkeys(self._timed, clock())
        #: By node and stream of it in the query, the latest event time of this run.
        self._latest: dict[str, dict[str, datetime]] = {name: {} for name in self._timed}
        self._moved: dict[str, datetime] = {}
        self._wrote: dict[str, float] = {}

    def hear(self, metrics: Mapping[str, Any]) -> None:
        """Take what Spark has counted in a finished batch."""
        for name, node, latest in timed(metrics):
            if node not in self._timed:
                continue
            self._heard[node] = self._clock()
            if latest is not None:
                known = self._latest[node].get(name, latest)
                self._latest[node][name] = max(latest, known)

    def idle(self) -> list[str]:
        """Return the nodes that have had no row for as long as they are waited for."""
        now = self._clock()
        return [
            name
            for name, node in self._timed.items()
            if node.idle_after and now - self._heard[name] >= node.idle_after.total_seconds()
        ]

    def move(self) -> None:
        """Move the nodes that are idle to where the others are, if these have moved since."""
        idle = self.idle()
        marks = [self._mark(name) for name in self._timed if name not in idle]
        known = [mark for mark in marks if mark is not None]
        if not known or len(known) < len(marks):
            return  # nothing to go on with, or another node holds the watermark back all the same
        to, now = min(known), self._clock()
        for name in idle:
            mark = max(filter(None, (self._moved.get(name), self._mark(name))), default=None)
            pause = max(_SECONDS, self._patience(name) / _SHARE)
            if (mark is None or mark < to) and now - self._wrote.get(name, -pause) >= pause:
                self._watermarks.advance(name, to)
                self._moved[name], self._wrote[name] = to, now

    def _patience(self, name: str) -> float:
        patience = self._timed[name].idle_after
        return patience.total_seconds() if patience else 0.0

    def _mark(self, name: str) -> datetime | None:
        """Return a node's own watermark, or None while it is not known."""
        watermark, latest = self._timed[name].watermark, self._latest[name]
        if watermark is None or len(latest) < self._watermarks.streams(name):
            return None
        return moved(min(latest.values()), -watermark.delay)
