"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_broker_amqp.sink.sink import AMQPSink
from mainstem_broker_amqp.source.source import AMQPSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"amqp": AMQPSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"amqp": AMQPSink}
