"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {
        "pipe": "mainstem_direct_socket.source:PipeSource",
        "socket": "mainstem_direct_socket.source:SocketSource",
    }


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {
        "socket": "mainstem_direct_socket.sink:SocketSink",
        "stdout": "mainstem_direct_socket.stdout:StdoutSink",
    }
