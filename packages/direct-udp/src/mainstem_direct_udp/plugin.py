"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Source, hookimpl

from mainstem_direct_udp.source import UDPSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"udp": UDPSource}
