"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"webhook": "mainstem_direct_webhook.source.source:WebhookSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"webhook": "mainstem_direct_webhook.sink.sink:WebhookSink"}


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {"http_lookup": "mainstem_direct_webhook.lookup.operator:HTTPLookupOperator"}
