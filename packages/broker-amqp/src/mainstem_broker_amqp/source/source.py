"""Source `amqp`: a queue of RabbitMQ, through the ingress log."""

from __future__ import annotations

from mainstem import (
    Level,
    OptionError,
    Shown,
    SourceCapabilities,
    write_duration,
)
from mainstem_ingress import IngressSource, Receiver

from mainstem_broker_amqp.source.options import AMQPSourceOptions


class AMQPSource(IngressSource):
    """Takes the messages of a RabbitMQ queue; acknowledges what is safe on disk."""

    options: AMQPSourceOptions

    def __init__(self, options: AMQPSourceOptions) -> None:
        super().__init__(options)
        if options.type == "stream":
            if options.receivers > 1:
                message = "a stream has one receiver: each would read all of it"
                raise OptionError(message, option="receivers")
            if options.ids == "always":
                message = "a stream is read by offset, so its messages need no ids"
                raise OptionError(message, option="ids")
        elif options.start != "earliest":
            raise OptionError("is for streams; a queue has no past", option="start")
        if options.ids == "always" and not options.duplicates_within:
            message = "is 0, so `ids: always` would not help"
            raise OptionError(message, option="duplicates_within")

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]
        """Nothing is lost; what can come twice depends on the kind of queue, and on ids."""
        options = self.options
        horizon = write_duration(options.duplicates_within)
        exact = options.ids == "always"
        assumptions = options.assumed(remembers=exact)
        if options.type == "stream":
            assumptions.append("the stream keeps its messages until they were taken")
            if options.start in ("latest", "last_chunk"):
                assumptions.append(
                    f"what comes before the first message is stored may be missed: until then "
                    f"`start: {options.start}` is looked up at each connection"
                )
            return SourceCapabilities(
                ordered=True, assumptions=tuple(assumptions), shown=_shown(Level.EXACTLY_ONCE)
            )
        if options.type == "quorum":
            assumptions.append("the queue has no delivery limit, or a dead-letter exchange")
        if options.ids != "never" and options.duplicates_within:
            assumptions.append("no two messages have one message id")
        return SourceCapabilities(
            shown=_shown(Level.EXACTLY_ONCE if exact else Level.AT_LEAST_ONCE),
            may_duplicate=not exact,
            ordered=options.receivers == 1,
            why=""
            if exact
            else "the broker gives it again when an acknowledgement is lost; copies with a message id "
            f"are dropped for {horizon}. If all have one, write `ids: always`"
            if options.ids == "when_given" and options.duplicates_within
            else "the broker gives it again when an acknowledgement is lost",
            assumptions=tuple(assumptions),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_amqp.source.receiver import AMQPReceiver

        return AMQPReceiver


def _shown(level: Level) -> Shown:
    return Shown(level, "packages/broker-amqp/tests/test_source_conformance.py")
