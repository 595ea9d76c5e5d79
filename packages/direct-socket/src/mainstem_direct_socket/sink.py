"""Sink `socket`: messages over a connection, TCP or Unix."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shape, Shown, SinkCapabilities
from mainstem.columns import Column, check_types, find_column
from mainstem_egress import EgressSink, Sender

from mainstem_direct_socket.options import SocketOptions

_TEXT = ("binary", "string")


class SocketSink(EgressSink):
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

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse rows without a value of text or bytes."""
        super().check_types(columns, shape)
        find_column(columns, "value", "value", hint="Make it with `encode`.")
        check_types(columns, {"value": _TEXT, "key": _TEXT})
