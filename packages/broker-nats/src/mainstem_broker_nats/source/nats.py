"""Source `nats`: subjects of core NATS, through the ingress log. What nobody listens to is lost."""

from __future__ import annotations

from mainstem import (
    Level,
    OptionError,
    Shown,
    SourceCapabilities,
)
from mainstem_ingress import (
    IngressSource,
    Receiver,
)

from mainstem_broker_nats.source.options import NATSSourceOptions


class NATSSource(IngressSource):
    """Takes messages of core NATS, which keeps none: what comes while nobody listens is lost."""

    options: NATSSourceOptions
    loses = True

    def __init__(self, options: NATSSourceOptions) -> None:
        super().__init__(options)
        if options.receivers > 1 and options.queue is None:
            message = "expected 1, or a `queue` that shares the messages: else each is given all"
            raise OptionError(message, option="receivers")

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Core NATS is at-most-once; what is known to be missing comes out of `lost`."""
        options = self.options
        assumptions = ["the disk keeps what it says it has written"]
        if options.receivers > 1:
            assumptions.append(
                f"the order of messages does not matter: {options.receivers} receivers share them"
            )
        return SourceCapabilities(
            lossy=True,
            ordered=options.receivers == 1 and options.queue is None,
            why="core NATS keeps no message: what is published while this is not connected, or was not "
            f"stored when it crashed, is lost, and so is what more than {options.pending_messages:,} "
            "waiting messages leave no room for. Drops and broken connections come out of `lost`",
            assumptions=tuple(assumptions),
            shown=Shown(
                Level.AT_MOST_ONCE,
                "packages/broker-nats/tests/test_nats_core_source_conformance.py",
            ),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_nats.source.nats_receiver import CoreReceiver

        return CoreReceiver
