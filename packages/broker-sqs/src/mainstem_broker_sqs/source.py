"""Source `sqs`: a queue of Amazon SQS, through the ingress log."""

from __future__ import annotations

from mainstem import Level, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_broker_sqs.options import SQSSourceOptions


class SQSSource(IngressSource):
    """Takes messages of a queue; deletes what is safe on disk. What comes again is known by its id."""

    options: SQSSourceOptions
    extra = "receive_count INT"
    inherits = ("AWS_",)  # credentials and regions, where the options leave them to the library

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Nothing that the queue keeps is lost; a copy is known by the id that SQS gave the message."""
        remembers = bool(self.options.duplicates_within)
        return SourceCapabilities(
            may_duplicate=not remembers,
            why="" if remembers else "SQS gives a message again when its deletion is lost",
            ordered=False,  # rows of one message group are in theirs
            assumptions=(
                *self.options.assumed(remembers=remembers),
                "the queue keeps what it has until it is deleted (`MessageRetentionPeriod`)",
            ),
            shown=Shown(
                Level.EXACTLY_ONCE if remembers else Level.AT_LEAST_ONCE,
                "packages/broker-sqs/tests/test_sqs_source_conformance.py",
            ),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_sqs.receiver import SQSReceiver

        return SQSReceiver
