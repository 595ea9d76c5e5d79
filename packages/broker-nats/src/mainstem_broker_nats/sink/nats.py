"""Sink `nats`: publishes messages to core NATS, which keeps nothing."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shape, Shown, SinkCapabilities
from mainstem.columns import Column
from mainstem_egress import EgressSink, Sender

from mainstem_broker_nats.sink.messages import SubjectTemplate, check_columns
from mainstem_broker_nats.sink.options import NATSSinkOptions

_SHOWN = {
    "microbatch": Shown(Level.NONE, "packages/broker-nats/tests/test_nats_core_sink_conformance.py")
}


class NATSSink(EgressSink):
    """Publishes messages to whoever listens when they come.

    The server has each message when a batch ends; it keeps none. Who is not there, or too slow, misses
    messages, and nobody knows. For what must arrive there is the sink `jetstream`.
    """

    options: NATSSinkOptions
    capabilities = SinkCapabilities(
        lossy=True,
        why="core NATS keeps nothing: who does not listen when a message comes, or reads too slowly, "
        "misses it",
        shown=_SHOWN,
    )

    def sender(self) -> type[Sender]:
        from mainstem_broker_nats.sink.nats_sender import NATSSender

        return NATSSender

    def lane(self) -> str:
        """The messages of a subject have an order."""
        return SubjectTemplate(self.options.subject).sql()

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        super().check_types(columns, shape)
        check_columns(columns, SubjectTemplate(self.options.subject))
