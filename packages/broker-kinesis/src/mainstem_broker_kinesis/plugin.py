"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"kinesis": "mainstem_broker_kinesis.source.source:KinesisSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"kinesis": "mainstem_broker_kinesis.sink.sink:KinesisSink"}
