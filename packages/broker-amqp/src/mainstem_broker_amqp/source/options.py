"""The options of the source `amqp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from mainstem import Dataset, Options, option
from mainstem_ingress import IngressOptions

from mainstem_broker_amqp.options import ConnectionOptions


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

    def datasets(self) -> Sequence[Dataset]:
        return [self.dataset(self.queue)]
