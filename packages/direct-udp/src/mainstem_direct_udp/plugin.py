"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_direct_udp.sink import UDPSink
from mainstem_direct_udp.source import UDPSource
from mainstem_direct_udp.statsd import StatsDSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"statsd": StatsDSource, "udp": UDPSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"udp": UDPSink}
