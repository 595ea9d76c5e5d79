"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_lake_delta.sink import DeltaSink
from mainstem_lake_delta.source import DeltaSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"delta": DeltaSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"delta": DeltaSink}
