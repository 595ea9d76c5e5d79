"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, hookimpl

from mainstem_lake_delta.sink import DeltaSink


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"delta": DeltaSink}
