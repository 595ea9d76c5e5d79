"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    """Return the sources by word."""
    return {"sql": "mainstem_database_sql.source.source:SQLSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    """Return the sinks by word."""
    return {"sql": "mainstem_database_sql.sink.sink:SQLSink"}


@hookimpl
def mainstem_operators() -> dict[str, str]:
    """Return the operators by word."""
    return {"sql_lookup": "mainstem_database_sql.lookup.operator:SQLLookupOperator"}
