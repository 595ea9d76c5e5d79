"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"sqs": "mainstem_broker_sqs.source:SQSSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"sqs": "mainstem_broker_sqs.sink:SQSSink"}
