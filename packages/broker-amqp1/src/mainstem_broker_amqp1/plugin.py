"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"amqp1": "mainstem_broker_amqp1.source:AMQP1Source"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"amqp1": "mainstem_broker_amqp1.sink:AMQP1Sink"}
