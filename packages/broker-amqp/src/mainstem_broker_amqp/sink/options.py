"""The options of the sink `amqp`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainstem import Dataset, Options, PositiveDuration, option
from mainstem_egress import EgressOptions
from pydantic import model_validator

from mainstem_broker_amqp.options import ConnectionOptions


class DeclareOptions(Options):
    """Options of `declare`."""

    type: str = option(
        "direct",
        min_length=1,
        description="`direct`, `fanout`, `topic`, `headers`, or a type that a plugin of the broker adds.",
    )
    durable: bool = option(True, description="Whether the exchange outlives the broker's restart.")
    auto_delete: bool = option(
        False, description="Whether the exchange goes when its last binding does."
    )
    arguments: dict[str, str | int | float | bool] = option(
        dict, description="Further arguments, such as `alternate-exchange`."
    )


class AMQPSinkOptions(ConnectionOptions, EgressOptions):
    """Options of the sink `amqp`."""

    exchange: str = option(
        "",
        max_length=127,
        description="Where to publish. Left out, it is the default exchange, whose routing keys are "
        "names of queues.",
        example="orders",
    )
    declare: DeclareOptions | None = option(
        None,
        description="Make the exchange if it is not there. Left out, it must be there before the first "
        "batch.",
    )
    routing_key: str | None = option(
        None, max_length=255, description="The routing key of all messages.", example="orders"
    )
    routing_key_from: str = option(
        "key",
        min_length=1,
        description="The column that holds each message's routing key, text or UTF-8 in bytes, when "
        "`routing_key` is left out.",
    )
    mandatory: bool = option(
        True,
        description="Whether a message that no queue is bound for is refused; if not, the broker drops "
        "it and nobody knows.",
    )
    persistent: bool = option(
        True,
        description="Whether messages outlive the broker's restart in durable queues. If not, what the "
        "header `amqp.delivery_mode` says holds, and without it they are transient.",
    )
    # Heartbeats find a lost connection. A broker that is there and does not confirm is slow: what is sent
    # again would be there twice.
    answer_timeout: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long the broker may confirm nothing while messages are in flight before the "
        "connection is made anew; one that blocks publishers is waited for.",
    )

    @model_validator(mode="after")
    def _fitting(self) -> AMQPSinkOptions:
        if self.declare is not None and not self.exchange:
            raise ValueError("declare is there, but no exchange: the default one is always there")
        return self

    def datasets(self) -> Sequence[Dataset]:
        # Messages of the default exchange go to the queue of that name.
        name = self.exchange or self.routing_key
        return [self.dataset(name)] if name else []
