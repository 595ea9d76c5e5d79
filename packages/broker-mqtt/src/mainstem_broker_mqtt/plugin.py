"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_broker_mqtt.sink import MQTTSink
from mainstem_broker_mqtt.source import MQTTSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"mqtt": MQTTSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"mqtt": MQTTSink}
