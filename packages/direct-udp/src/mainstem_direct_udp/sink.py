"""Sink `udp`: datagrams, to an address or a multicast group."""

from __future__ import annotations

from mainstem import Level, Shown, SinkCapabilities
from mainstem_egress import Sender, UnansweredSink

from mainstem_direct_udp.options import UDPOptions


class UDPSink(UnansweredSink):
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
