"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_direct_socket.sink import SocketSink
from mainstem_direct_socket.source import PipeSource, SocketSource
from mainstem_direct_socket.stdout import StdoutSink


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"pipe": PipeSource, "socket": SocketSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"socket": SocketSink, "stdout": StdoutSink}
