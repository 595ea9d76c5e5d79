"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {
        "jetstream": "mainstem_broker_nats.source.jetstream:JetStreamSource",
        "jetstream_queue": "mainstem_broker_nats.source.queue:JetStreamQueue",
        "nats": "mainstem_broker_nats.source.nats:NATSSource",
        "nats_bucket": "mainstem_broker_nats.source.bucket:BucketSource",
    }


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {
        "jetstream": "mainstem_broker_nats.sink.jetstream:JetStreamSink",
        "nats": "mainstem_broker_nats.sink.nats:NATSSink",
    }
