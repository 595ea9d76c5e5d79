"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_direct_zeromq.sink.sink import ZeroMQSink
from mainstem_direct_zeromq.source.source import ZeroMQSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"zeromq": ZeroMQSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"zeromq": ZeroMQSink}
