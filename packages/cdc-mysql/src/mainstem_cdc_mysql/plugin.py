"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Source, hookimpl

from mainstem_cdc_mysql.source import MySQLSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"mysql": MySQLSource}
