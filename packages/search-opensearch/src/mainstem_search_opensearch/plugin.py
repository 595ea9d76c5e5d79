"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, hookimpl

from mainstem_search_opensearch.sink import OpenSearchSink


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"opensearch": OpenSearchSink}
