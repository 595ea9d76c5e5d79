"""Source `pulsar_queue`: a subscription of a topic, through the ingress log."""

from __future__ import annotations

from mainstem import Level, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_broker_pulsar.content import QUEUE_COLUMNS
from mainstem_broker_pulsar.options import PulsarQueueOptions


class PulsarQueueSource(IngressSource):
    """Takes messages of a subscription, which may share them; acknowledges what is safe on disk."""

    options: PulsarQueueOptions
    extra = QUEUE_COLUMNS

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Nothing is lost; what comes again is known by the place that a message has in its topic."""
        remembers = bool(self.options.duplicates_within)
        again = (
            "the broker gives a message again that was stored, and whose acknowledgement was lost"
        )
        level = Level.EXACTLY_ONCE if remembers else Level.AT_LEAST_ONCE
        return SourceCapabilities(
            ordered=self.options.receivers == 1 and self.options.mode in ("exclusive", "failover"),
            may_duplicate=not remembers,
            why="" if remembers else f"{again}, and `duplicates_within` is 0",
            assumptions=(
                *self.options.assumed(remembers=remembers),
                "the broker keeps messages until they are acknowledged: no time to live, no quota",
                "no message is sent twice: senders that retry have deduplication",
            ),
            shown=Shown(level, "packages/broker-pulsar/tests/test_pulsar_queue_conformance.py"),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_pulsar.receiver import PulsarReceiver

        return PulsarReceiver
