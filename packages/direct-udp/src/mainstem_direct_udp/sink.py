"""Sink `udp`: datagrams, to an address or a multicast group."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shape, Shown, SinkCapabilities
from mainstem.columns import Column, check_types, find_column
from mainstem_egress import EgressSink, Sender

from mainstem_direct_udp.options import UDPOptions

_TEXT = ("binary", "string")


class UDPSink(EgressSink):
    """Sends the column `value` of each row as a datagram; nobody says whether it arrived."""

    options: UDPOptions
    capabilities = SinkCapabilities(
        lossy=True,
        why="UDP has no acknowledgements: what the network or the other side's kernel drops is lost",
        shown={"microbatch": Shown(Level.NONE, "packages/direct-udp/tests/test_udp_sink.py")},
    )

    def sender(self) -> type[Sender]:
        from mainstem_direct_udp.sender import UDPSender

        return UDPSender

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse rows without a value of text or bytes."""
        super().check_types(columns, shape)
        find_column(columns, "value", "value", hint="Make it with `encode`.")
        check_types(columns, {"value": _TEXT, "key": _TEXT})
