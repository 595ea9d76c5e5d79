"""Sink `socket`: messages over a connection, TCP or Unix."""

from __future__ import annotations

from mainstem import Level, Shown, SinkCapabilities
from mainstem_egress import Sender, UnansweredSink

from mainstem_direct_socket.options import SocketOptions


class SocketSink(UnansweredSink):
    """Sends the column `value` of each row as a message.

    The system has each message when a batch ends; whether the other side has it nobody says.
    """

    options: SocketOptions
    capabilities = SinkCapabilities(
        lossy=True,
        why="a socket has no acknowledgements: what the other side had not read when it broke "
        "is lost",
        shown={"microbatch": Shown(Level.NONE, "packages/direct-socket/tests/test_socket_sink.py")},
    )

    def sender(self) -> type[Sender]:
        from mainstem_direct_socket.sender import SocketSender

        return SocketSender
