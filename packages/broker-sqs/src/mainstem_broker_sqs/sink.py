"""Sink `sqs`: messages into a queue of Amazon SQS."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shape, Shown, SinkCapabilities
from mainstem.columns import Column, check_types
from mainstem_egress import EgressSink, Sender

from mainstem_broker_sqs.options import SQSOptions

_TEXT = ("binary", "string")
_TYPES = {"key": _TEXT, "value": _TEXT, "headers": ("map<string,binary>",)}
_SHOWN = "packages/broker-sqs/tests/test_sqs_sink_conformance.py"


class SQSSink(EgressSink):
    """Sends messages; a value that is no text goes as base64, and says so.

    At least once: a batch that is retried, or a message whose answer was lost, is sent again with its
    identity. A FIFO queue drops such copies for five minutes; of others a reader does by `mainstem-id`.
    """

    options: SQSOptions
    capabilities = SinkCapabilities(
        needs_id=True,
        assumptions=("the queue keeps what it has acknowledged until a reader deletes it",),
        shown={"microbatch": Shown(Level.AT_LEAST_ONCE, _SHOWN)},
    )

    def sender(self) -> type[Sender]:
        from mainstem_broker_sqs.sender import FIFOSender, SQSSender

        return FIFOSender if self.options.fifo and self.options.order == "key" else SQSSender

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say."""
        super().check_types(columns, shape)
        check_types(columns, _TYPES)
