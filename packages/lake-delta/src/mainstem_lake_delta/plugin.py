"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"delta": "mainstem_lake_delta.source:DeltaSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"delta": "mainstem_lake_delta.sink:DeltaSink"}
