"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Operator, Sink, Source, hookimpl

from mainstem_direct_webhook.lookup.operator import HTTPLookupOperator
from mainstem_direct_webhook.sink.sink import WebhookSink
from mainstem_direct_webhook.source.source import WebhookSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"webhook": WebhookSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"webhook": WebhookSink}


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {"http_lookup": HTTPLookupOperator}
