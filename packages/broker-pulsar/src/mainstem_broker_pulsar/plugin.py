"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_broker_pulsar.queue import PulsarQueueSource
from mainstem_broker_pulsar.sink import PulsarSink
from mainstem_broker_pulsar.source import PulsarSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"pulsar": PulsarSource, "pulsar_queue": PulsarQueueSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"pulsar": PulsarSink}
