"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_broker_sqs.sink import SQSSink
from mainstem_broker_sqs.source import SQSSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"sqs": SQSSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"sqs": SQSSink}
