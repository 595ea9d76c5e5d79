"""The receiver of the source `statsd`: datagrams as `udp` takes them, read as columns."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from mainstem_ingress import Columns, Message, Rows, no_row
from mainstem_ingress.tables import columns_of, struct_type

from mainstem_direct_udp.metrics import read
from mainstem_direct_udp.options import StatsDSourceOptions
from mainstem_direct_udp.receiver import UDPReceiver
from mainstem_direct_udp.statsd import TABLES

_NONE = no_row(TABLES)


class StatsDReceiver(UDPReceiver):
    """Takes datagrams, each of which may have many lines."""

    options: StatsDSourceOptions

    def __init__(self, options: StatsDSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._kinds: dict[str, Any] = {n: struct_type(n, shape) for n, shape in TABLES.items()}

    def take(self, seconds: float) -> Iterable[Message]:
        taken = self._taken(seconds)
        others = [m._replace(extra=_NONE) for m in taken if m.refused is not None]
        good = [m for m in taken if m.refused is None]
        if not good:
            return others
        now = time.time_ns() // 1000
        origin = self.options.listen
        found = read([m.value or b"" for m in good], [m.timestamp or now for m in good])
        parts: list[Columns | list[Message]] = []
        if found.metrics is not None:
            rows = columns_of(self._kinds["metrics"], found.metrics)
            parts.append(Columns("metrics", rows, [now] * len(rows), origin))
        for name, held in (("events", found.events), ("checks", found.checks)):
            if held:
                rows = pa.array(held, self._kinds[name])
                parts.append(Columns(name, rows, [now] * len(held), origin))
        others += [
            Message(line, origin=origin, refused=f"it is no line of StatsD: {why}", extra=_NONE)
            for line, why in found.refused
        ]
        if others:
            parts.append(others)
        return Rows(parts)
