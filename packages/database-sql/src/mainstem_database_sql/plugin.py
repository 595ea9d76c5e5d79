"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Operator, Sink, Source, hookimpl

from mainstem_database_sql.lookup.operator import SQLLookupOperator
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


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    """Return the operators by word."""
    return {"sql_lookup": SQLLookupOperator}
