"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"zeromq": "mainstem_direct_zeromq.source.source:ZeroMQSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"zeromq": "mainstem_direct_zeromq.sink.sink:ZeroMQSink"}
