"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_broker_amqp1.sink import AMQP1Sink
from mainstem_broker_amqp1.source import AMQP1Source


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"amqp1": AMQP1Source}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"amqp1": AMQP1Sink}
