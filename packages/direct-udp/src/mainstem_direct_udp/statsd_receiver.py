"""The receivers of the source `statsd`: what datagrams and connections bring, read as columns."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from mainstem_ingress import Columns, Message, Rows, no_row
from mainstem_ingress.connections import StreamReceiver
from mainstem_ingress.streams import StreamOptions
from mainstem_ingress.tables import columns_of, struct_type

from mainstem_direct_udp.metrics import read
from mainstem_direct_udp.options import StatsDSourceOptions
from mainstem_direct_udp.receiver import UDPReceiver
from mainstem_direct_udp.statsd import TABLES

_NONE = no_row(TABLES)
_KINDS: dict[str, Any] = {name: struct_type(name, shape) for name, shape in TABLES.items()}


class StatsDReceiver(UDPReceiver):
    """Takes datagrams, each of which may have many lines."""

    def take(self, seconds: float) -> Iterable[Message]:
        return _rows(self._taken(seconds), self.options.listen)


class StatsDStreamReceiver(StreamReceiver):
    """Takes what comes over connections: lines, or packets of lines with their length before them."""

    def __init__(self, options: StatsDSourceOptions, number: int, node: str) -> None:
        assert options.stream is not None  # noqa: S101
        stream = StreamOptions(listen=options.listen, **dict(options.stream))
        super().__init__(options, number, node, stream)
        self._listen_at = options.listen

    def take(self, seconds: float) -> Iterable[Message]:
        return _rows(list(super().take(seconds)), self._listen_at)


def _rows(taken: list[Message], origin: str) -> Iterable[Message]:
    """Return what was taken as rows of the outputs; what is no line is refused."""
    others = [m._replace(extra=_NONE) for m in taken if m.refused is not None]
    good = [m for m in taken if m.refused is None]
    if not good:
        return others
    now = time.time_ns() // 1000
    found = read([m.value or b"" for m in good], [m.timestamp or now for m in good])
    parts: list[Columns | list[Message]] = []
    if found.metrics is not None:
        rows = columns_of(_KINDS["metrics"], found.metrics)
        parts.append(Columns("metrics", rows, [now] * len(rows), origin))
    for name, held in (("events", found.events), ("checks", found.checks)):
        if held:
            rows = pa.array(held, _KINDS[name])
            parts.append(Columns(name, rows, [now] * len(held), origin))
    others += [
        Message(line, origin=origin, refused=f"it is no line of StatsD: {why}", extra=_NONE)
        for line, why in found.refused
    ]
    if others:
        parts.append(others)
    return Rows(parts)
