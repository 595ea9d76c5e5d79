"""Source `pubsub`: a subscription of Google Pub/Sub, through the ingress log."""

from __future__ import annotations

from typing import ClassVar

from mainstem import Level, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_broker_pubsub.options import PubSubSourceOptions


class PubSubSource(IngressSource):
    """Takes messages of a subscription; acknowledges what is safe on disk. A copy is known by its id."""

    options: PubSubSourceOptions
    extra = "message_id STRING, delivery_attempt INT"
    inherits: ClassVar[tuple[str, ...]] = (
        "GOOGLE_", "CLOUDSDK_", "GCE_METADATA_", "NO_GCE_CHECK", "GRPC_", "grpc_proxy", "no_grpc_proxy",
        "REQUESTS_CA_BUNDLE", "AWS_",  # accounts of AWS that Google knows
    )  # fmt: skip

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Nothing that the subscription keeps is lost; a copy is known by the message's id."""
        remembers = bool(self.options.duplicates_within)
        return SourceCapabilities(
            may_duplicate=not remembers,
            why=""
            if remembers
            else "Pub/Sub gives a message again when its acknowledgement is lost",
            ordered=False,  # messages of one ordering key are in theirs
            assumptions=(
                *self.options.assumed(remembers=remembers),
                "the subscription keeps what it has until it is acknowledged (its retention, 7 days)",
                "no message is given its `max_delivery_attempts` times before it is stored",
            ),
            shown=Shown(
                Level.EXACTLY_ONCE if remembers else Level.AT_LEAST_ONCE,
                "packages/broker-pubsub/tests/test_pubsub_source_conformance.py",
            ),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_pubsub.receiver import PubSubReceiver

        return PubSubReceiver
