"""Source `amqp`: a queue of RabbitMQ, through the ingress log."""

from __future__ import annotations

from typing import Any, Literal

from mainstem import (
    Level,
    OptionError,
    Options,
    Shown,
    SourceCapabilities,
    option,
    write_duration,
)
from mainstem_ingress import IngressOptions, IngressSource, Receiver

from mainstem_broker_amqp.connecting import ConnectionOptions


class Binding(Options):
    """A binding of the queue to an exchange."""

    exchange: str = option(min_length=1, description="The exchange, which must be there.")
    routing_key: str = option("", description="Which messages of the exchange, as its type has it.")
    arguments: dict[str, Any] = option(dict, description="Arguments of the binding.")


class QueueDeclaration(Options):
    """How a queue is made if it is not there; one that is there otherwise ends the run."""

    durable: bool = option(True, description="Whether the queue outlives the broker.")
    auto_delete: bool = option(
        False, description="Whether the broker removes it with its last consumer."
    )
    single_active_consumer: bool = option(
        False, description="Whether one consumer at a time is given messages, the others waiting."
    )
    arguments: dict[str, Any] = option(
        dict,
        description="Arguments of the queue, beside its type.",
        example={"x-max-length": 100000},
    )
    bindings: list[Binding] = option(list, description="Its bindings to exchanges.")


#: RabbitMQ's words for the places where a stream is begun.
_OFFSETS = {"earliest": "first", "latest": "next", "last_chunk": "last"}


class AMQPSourceOptions(ConnectionOptions, IngressOptions):
    """Options of the source `amqp`."""

    queue: str = option(min_length=1, max_length=255, description="The queue's name.")
    type: Literal["classic", "quorum", "stream"] = option(
        "classic", description="What kind of queue it is, or is declared as."
    )
    declare: QueueDeclaration | None = option(
        None,
        description="Make the queue if it is not there. When left out, it must be there.",
    )
    prefetch: int = option(
        5000,
        ge=1,
        le=65535,
        description="How many messages the broker gives each receiver ahead of acknowledgements.",
    )
    priority: int | None = option(
        None, description="The consumers' priority: the broker serves higher ones first."
    )
    start: Literal["earliest", "latest", "last_chunk"] | int = option(
        "earliest",
        description="Where a new log begins to read a stream: with its `earliest` message, with what "
        "comes from now on (`latest`), with the `last_chunk` that the broker stored, or at an offset.",
    )
    ids: Literal["when_given", "always", "never"] = option(
        "when_given",
        description="Which messages are told apart by their property message_id, so that second copies "
        "within `duplicates_within` are dropped. `always` refuses those without one, and makes this "
        "source exactly-once; `never` is for ids that are not unique.",
    )

    @property
    def offset(self) -> int | str:
        """`start`, as RabbitMQ has it."""
        return self.start if isinstance(self.start, int) else _OFFSETS[self.start]


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
        assumptions = ["the disk keeps what it says it has written"]
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
        if options.receivers > 1:
            assumptions.append(
                f"the order of messages does not matter: {options.receivers} receivers share them"
            )
        if options.type == "quorum":
            assumptions.append("the queue has no delivery limit, or a dead-letter exchange")
        if options.ids != "never" and options.duplicates_within:
            assumptions.append("no two messages have one message id")
        if options.ids == "always":
            assumptions.append(
                f"a copy comes within {horizon}, and before {options.duplicates_most:,} other messages"
            )
        exact = options.ids == "always"
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
