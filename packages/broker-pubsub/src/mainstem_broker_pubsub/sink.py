"""Sink `pubsub`: messages into a topic of Google Pub/Sub."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shape, Shown, SinkCapabilities
from mainstem.columns import Column, check_types
from mainstem_egress import EgressSink, Sender

from mainstem_broker_pubsub.options import PubSubOptions

_TEXT = ("binary", "string")
_TYPES = {"key": _TEXT, "value": _TEXT, "headers": ("map<string,binary>",)}
_SHOWN = "packages/broker-pubsub/tests/test_pubsub_sink_conformance.py"


class PubSubSink(EgressSink):
    """Publishes messages; a row's key is the ordering key, its headers are attributes.

    At least once: a batch that is retried, or a message whose answer was lost, is published again with
    its identity, the attribute `mainstem-id`, by which a reader drops copies.
    """

    options: PubSubOptions
    capabilities = SinkCapabilities(
        needs_id=True,
        assumptions=("subscriptions keep what the topic has taken until a reader acknowledges it",),
        shown={"microbatch": Shown(Level.AT_LEAST_ONCE, _SHOWN)},
    )

    def sender(self) -> type[Sender]:
        from mainstem_broker_pubsub.sender import PubSubSender

        return PubSubSender

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say."""
        super().check_types(columns, shape)
        check_types(columns, _TYPES)
