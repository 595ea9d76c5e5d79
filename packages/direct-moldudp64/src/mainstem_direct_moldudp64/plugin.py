"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Source, hookimpl

from mainstem_direct_moldudp64.source import MoldUDP64Source


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"moldudp64": MoldUDP64Source}
