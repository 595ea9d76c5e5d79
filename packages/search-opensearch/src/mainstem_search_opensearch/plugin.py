"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"opensearch": "mainstem_search_opensearch.sink:OpenSearchSink"}
