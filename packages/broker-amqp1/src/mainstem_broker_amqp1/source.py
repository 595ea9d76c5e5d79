"""Source `amqp1`: a queue or topic of a broker of AMQP 1.0, through the ingress log."""

from __future__ import annotations

from mainstem import Level, Shown, SourceCapabilities, write_duration
from mainstem_ingress import IngressSource, Receiver

from mainstem_broker_amqp1.content import COLUMNS
from mainstem_broker_amqp1.options import AMQP1SourceOptions

_SHOWN = "packages/broker-amqp1/tests/test_amqp1_source_conformance.py"
_AGAIN = "the broker gives a message again that was stored, and whose settlement was lost"


class AMQP1Source(IngressSource):
    """Takes messages of a queue or of a topic's subscription; settles what is safe on disk."""

    options: AMQP1SourceOptions
    extra = COLUMNS

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Nothing is lost; what can come twice depends on message ids."""
        options = self.options
        remembers = options.ids != "never" and bool(options.duplicates_within)
        exact = options.ids == "always"
        assumptions = options.assumed(remembers=remembers)
        assumptions.append(
            "the broker keeps messages until they are settled: senders make them durable, and it has a "
            "dead-letter address for what it gives too often"
        )
        if remembers:
            assumptions.append("no two messages have one message id")
        why = _AGAIN
        if remembers and not exact:
            horizon = write_duration(options.duplicates_within)
            why += (
                f"; copies with a message id are dropped for {horizon}. If all have one, write "
                "`ids: always`"
            )
        return SourceCapabilities(
            ordered=options.receivers == 1 and not options.shared,
            may_duplicate=not exact,
            why="" if exact else why,
            assumptions=tuple(assumptions),
            shown=Shown(Level.EXACTLY_ONCE if exact else Level.AT_LEAST_ONCE, _SHOWN),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_amqp1.receiver import AMQP1Receiver

        return AMQP1Receiver
