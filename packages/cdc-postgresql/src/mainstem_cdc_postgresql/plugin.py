"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"postgresql": "mainstem_cdc_postgresql.source:PostgreSQLSource"}
