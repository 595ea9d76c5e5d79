"""Sink `amqp`: publishes messages to an exchange of RabbitMQ, each confirmed by the broker."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shape, Shown, SinkCapabilities
from mainstem.columns import Column, check_types, find_column
from mainstem_egress import EgressSink, Sender

from mainstem_broker_amqp.sink.options import AMQPSinkOptions

_TYPES = {"headers": ("map<string,binary>",), "timestamp": ("timestamp",)}
_TEXT = ("binary", "string")
_SHOWN = {
    "microbatch": Shown(Level.AT_LEAST_ONCE, "packages/broker-amqp/tests/test_sink_conformance.py")
}


class AMQPSink(EgressSink):
    """Publishes messages to RabbitMQ with confirms; each carries its identity as message id.

    At least once: a batch that is retried, or a message whose confirm was lost, is published again, with
    the same message id. A reader that remembers ids drops the copies.
    """

    options: AMQPSinkOptions

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]
        """The facts, of which some depend on the options."""
        assumptions = ["the queues are durable, and replicated if the broker's disks can fail"]
        if not self.options.mandatory:
            assumptions.append("a queue is bound for each message (mandatory: false)")
        if not self.options.persistent:
            assumptions.append(
                "the broker keeps running until messages are read (persistent: false)"
            )
        return SinkCapabilities(needs_id=True, assumptions=tuple(assumptions), shown=_SHOWN)

    def sender(self) -> type[Sender]:
        from mainstem_broker_amqp.sink.sender import AMQPSender

        return AMQPSender

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        super().check_types(columns, shape)
        options = self.options
        wanted = {**_TYPES, "key": _TEXT}
        if options.routing_key is None:
            hint = "Give one for all messages: routing_key."
            find_column(columns, options.routing_key_from, "routing_key_from", hint=hint)
            wanted[options.routing_key_from.lower()] = _TEXT
        check_types(columns, wanted)
