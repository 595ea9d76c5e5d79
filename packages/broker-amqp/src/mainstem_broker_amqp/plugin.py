"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"amqp": "mainstem_broker_amqp.source.source:AMQPSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"amqp": "mainstem_broker_amqp.sink.sink:AMQPSink"}
