"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_database_sql.sink.sink import SQLSink
from mainstem_database_sql.source.source import SQLSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    """Return the sources by word."""
    return {"sql": SQLSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    """Return the sinks by word."""
    return {"sql": SQLSink}
