"""Sink `amqp1`: sends messages, each settled by the broker."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shape, Shown, SinkCapabilities
from mainstem.columns import Column, check_types, find_column
from mainstem_egress import EgressSink, Sender

from mainstem_broker_amqp1.options import AMQP1Options

_TEXT = ("binary", "string")
_TYPES = {"key": _TEXT, "value": _TEXT, "headers": ("map<string,binary>",)}
_SHOWN = "packages/broker-amqp1/tests/test_amqp1_sink_conformance.py"


class AMQP1Sink(EgressSink):
    """Sends messages to addresses; each has its identity as its message id.

    At least once: a batch that is retried, or a message whose answer was lost, is sent again with the
    same message id. A reader that remembers them drops the copies.
    """

    options: AMQP1Options

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]  # options decide
        kept = "the broker keeps what it has accepted"
        if not self.options.durable:
            kept += ", which with `durable: false` it does not over its own restart"
        return SinkCapabilities(
            needs_id=True,
            assumptions=(kept,),
            shown={"microbatch": Shown(Level.AT_LEAST_ONCE, _SHOWN)},
        )

    def sender(self) -> type[Sender]:
        from mainstem_broker_amqp1.sender import AMQP1Sender

        return AMQP1Sender

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        super().check_types(columns, shape)
        wanted = dict(_TYPES)
        if self.options.address is None:
            column = self.options.address_from
            find_column(columns, column, "address_from", hint="Or name one for all: address.")
            wanted[column.lower()] = _TEXT
        check_types(columns, wanted)
