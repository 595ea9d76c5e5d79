"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_lake_iceberg.sink import IcebergSink
from mainstem_lake_iceberg.source import IcebergSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"iceberg": IcebergSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"iceberg": IcebergSink}
