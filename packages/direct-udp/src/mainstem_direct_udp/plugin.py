"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {
        "statsd": "mainstem_direct_udp.statsd:StatsDSource",
        "udp": "mainstem_direct_udp.source:UDPSource",
    }


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"udp": "mainstem_direct_udp.sink:UDPSink"}
