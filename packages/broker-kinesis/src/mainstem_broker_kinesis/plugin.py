"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_broker_kinesis.sink.sink import KinesisSink
from mainstem_broker_kinesis.source.source import KinesisSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"kinesis": KinesisSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"kinesis": KinesisSink}
