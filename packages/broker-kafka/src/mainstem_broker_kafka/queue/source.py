"""Source `kafka_queue`: a share group of Kafka, through the ingress log."""

from __future__ import annotations

from mainstem import Level, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_broker_kafka.queue.options import KafkaQueueOptions


class KafkaQueueSource(IngressSource):
    """Takes messages that brokers share out to a group; acknowledges what is safe on disk."""

    options: KafkaQueueOptions
    extra = "topic_partition INT, offset BIGINT, delivery_count INT"

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Nothing is lost that brokers keep; what comes again is known by its place in the topic."""
        options = self.options
        remembers = bool(options.duplicates_within)
        limit = options.deliveries or "5 times if nobody has changed it"
        dropped = (
            f"no message is given `share.delivery.count.limit` times ({limit}) before it is stored: by "
            "crashes, or to receivers that hold it for longer than its lock because a disk is full"
        )
        assumptions = [
            *options.assumed(remembers=remembers),
            dropped,
            "the topic keeps a message until the group has it",
        ]
        if options.isolation == "read_uncommitted":
            assumptions.append("messages of transactions that are aborted later count as written")
        again = "brokers give a message again that was stored, and whose acknowledgement was lost"
        level = Level.EXACTLY_ONCE if remembers else Level.AT_LEAST_ONCE
        return SourceCapabilities(
            ordered=False,
            may_duplicate=not remembers,
            why="" if remembers else f"{again}, and `duplicates_within` is 0",
            assumptions=tuple(assumptions),
            shown=Shown(level, "packages/broker-kafka/tests/test_kafka_queue_conformance.py"),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_kafka.queue.receiver import KafkaQueueReceiver

        return KafkaQueueReceiver
