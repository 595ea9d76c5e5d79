"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"mqtt": "mainstem_broker_mqtt.source:MQTTSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"mqtt": "mainstem_broker_mqtt.sink:MQTTSink"}
