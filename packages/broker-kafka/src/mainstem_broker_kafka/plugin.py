"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {
        "kafka": "mainstem_broker_kafka.source.source:KafkaSource",
        "kafka_queue": "mainstem_broker_kafka.queue.source:KafkaQueueSource",
    }


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"kafka": "mainstem_broker_kafka.sink.sink:KafkaSink"}
