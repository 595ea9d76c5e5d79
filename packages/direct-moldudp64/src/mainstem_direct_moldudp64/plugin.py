"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"moldudp64": "mainstem_direct_moldudp64.source:MoldUDP64Source"}
