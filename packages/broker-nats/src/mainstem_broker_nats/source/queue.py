"""Source `jetstream_queue`: messages of a durable consumer, through the ingress log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mainstem import (
    HelperProcess,
    Level,
    Shown,
    SourceCapabilities,
)
from mainstem_ingress import IngressSource, Receiver

from mainstem_broker_nats.source.options import JetStreamQueueOptions


class JetStreamQueue(IngressSource):
    """Takes messages from a durable consumer; acknowledges what is safe on disk."""

    options: JetStreamQueueOptions
    loses = True  # JetStream gives up on messages

    def __init__(self, options: JetStreamQueueOptions) -> None:
        super().__init__(options)
        self._goes_on = False

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Nothing is lost; a message that is given again is known by its sequence for a while."""
        options = self.options
        remembers = bool(options.duplicates_within)
        assumptions = [
            *options.assumed(remembers=remembers),
            "publishers that retry give each message a Nats-Msg-Id",
            "the stream keeps each message until it was taken",
        ]
        if options.max_deliver > 0:
            assumptions.append(
                f"no message is given {options.max_deliver} times without an acknowledgement: JetStream "
                "then gives up on it (`max_deliver`), which the output `lost` tells of"
            )
        else:
            assumptions.append("a consumer that is there already has no `max_deliver`")
        return SourceCapabilities(
            ordered=False,  # what is given again comes after what was published later
            may_duplicate=not remembers,
            why=""
            if remembers
            else "JetStream gives a message again when its acknowledgement is lost",
            assumptions=tuple(assumptions),
            shown=Shown(
                Level.EXACTLY_ONCE if remembers else Level.AT_LEAST_ONCE,
                "packages/broker-nats/tests/test_nats_queue_conformance.py",
            ),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_nats.source.queue_receiver import GoingOn, QueueReceiver

        return GoingOn if self._goes_on else QueueReceiver

    def processes(self, node: str, home: Path) -> Sequence[HelperProcess]:
        log = self.log(home)
        self._goes_on = any(log.end(receiver) for receiver in log.receivers())
        return super().processes(node, home)
