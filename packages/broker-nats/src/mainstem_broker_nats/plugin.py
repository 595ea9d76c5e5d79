"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_broker_nats.sink.jetstream import JetStreamSink
from mainstem_broker_nats.sink.nats import NATSSink
from mainstem_broker_nats.source.bucket import BucketSource
from mainstem_broker_nats.source.jetstream import JetStreamSource
from mainstem_broker_nats.source.nats import NATSSource
from mainstem_broker_nats.source.queue import JetStreamQueue


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {
        "jetstream": JetStreamSource,
        "jetstream_queue": JetStreamQueue,
        "nats": NATSSource,
        "nats_bucket": BucketSource,
    }


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"jetstream": JetStreamSink, "nats": NATSSink}
