"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_broker_pubsub.sink import PubSubSink
from mainstem_broker_pubsub.source import PubSubSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"pubsub": PubSubSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"pubsub": PubSubSink}
