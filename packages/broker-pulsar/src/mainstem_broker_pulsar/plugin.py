"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {
        "pulsar": "mainstem_broker_pulsar.source:PulsarSource",
        "pulsar_queue": "mainstem_broker_pulsar.queue:PulsarQueueSource",
    }


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"pulsar": "mainstem_broker_pulsar.sink:PulsarSink"}
