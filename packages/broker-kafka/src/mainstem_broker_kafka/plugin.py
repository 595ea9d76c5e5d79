"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_broker_kafka.queue.source import KafkaQueueSource
from mainstem_broker_kafka.sink.sink import KafkaSink
from mainstem_broker_kafka.source.source import KafkaSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"kafka": KafkaSource, "kafka_queue": KafkaQueueSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"kafka": KafkaSink}
