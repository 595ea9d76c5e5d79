"""Wires the word to its class."""

from __future__ import annotations

from mainstem import Sink, hookimpl

from .sink import NewWordSink


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    """Return the sinks of this distribution, by their words."""
    return {"newword": NewWordSink}
