"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"iceberg": "mainstem_lake_iceberg.source:IcebergSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"iceberg": "mainstem_lake_iceberg.sink:IcebergSink"}
