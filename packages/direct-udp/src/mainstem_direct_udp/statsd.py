"""Source `statsd`: metrics that programs send, a row for each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mainstem import Events, Level, Shape, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_direct_udp.options import StatsDSourceOptions

METRICS = (
    "name STRING, type STRING, value DOUBLE, text STRING, relative BOOLEAN, rate DOUBLE, scaled DOUBLE, "
    "tags MAP<STRING, STRING>, at TIMESTAMP"
)
EVENTS = (
    "title STRING, text STRING, host STRING, priority STRING, alert_type STRING, aggregation_key STRING, "
    "source_type STRING, tags MAP<STRING, STRING>, at TIMESTAMP"
)
CHECKS = (
    "name STRING, status INT, host STRING, message STRING, tags MAP<STRING, STRING>, at TIMESTAMP"
)
#: The outputs: metrics, DataDog's events and service checks.
TABLES: Mapping[str, Shape] = MappingProxyType(
    {"metrics": Events(METRICS), "events": Events(EVENTS), "checks": Events(CHECKS)}
)

_DATAGRAMS = (
    "UDP has no acknowledgements: what the network drops, what comes while nothing listens, and what was "
    "taken and not stored when a process is killed, is lost. What the kernel drops comes out of `lost`, "
    "by its count"
)
_CONNECTIONS = (
    "nobody acknowledges what was read: what a process had taken and not stored when it was killed, and "
    "what was between the two sides, is lost"
)


class StatsDSource(IngressSource):
    """Takes metrics of StatsD; lines that are none come out of `rejected`, drops out of `lost`."""

    options: StatsDSourceOptions
    tables = TABLES
    loses = True

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """At most once: nothing is acknowledged, over connections neither."""
        return SourceCapabilities(
            lossy=True,
            ordered=False,
            why=_DATAGRAMS if self.options.stream is None else _CONNECTIONS,
            assumptions=("the disk keeps what it says it has written",),
            shown=Shown(Level.AT_MOST_ONCE, "packages/direct-udp/tests/test_statsd.py"),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_direct_udp.statsd_receiver import StatsDReceiver, StatsDStreamReceiver

        return StatsDReceiver if self.options.stream is None else StatsDStreamReceiver
