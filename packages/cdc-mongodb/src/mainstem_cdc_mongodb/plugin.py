"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Source, hookimpl

from mainstem_cdc_mongodb.source import MongoDBSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"mongodb": MongoDBSource}
