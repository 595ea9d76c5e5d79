"""Sends messages over a connection that answers nothing."""

from __future__ import annotations

import select
import socket
import ssl

from mainstem import RefusedRowError, TransientError
from mainstem_egress import UnansweredSender
from mainstem_ingress.connections import connected
from mainstem_ingress.framing import framed
from mainstem_ingress.streams import place_of

from mainstem_direct_socket.options import SocketOptions

#: So much is written at once.
_WRITE = 256 * 1024


class SocketSender(UnansweredSender):
    """Sends over one connection."""

    options: SocketOptions

    def __init__(self, options: SocketOptions, name: str) -> None:
        super().__init__(options, name)
        self._socket: socket.socket | None = None

    def open(self) -> None:
        options = self.options
        seconds = options.connect_timeout.total_seconds()
        self._socket = connected(place_of(options.connect), options.tls, seconds)
        self._socket.settimeout(options.answer_timeout.total_seconds())
        self._kept: list[bytes] = []
        self._size = 0

    def put(self, value: bytes) -> None:
        try:
            data = framed(self.options, value)
        except ValueError as error:
            raise RefusedRowError(str(error)) from None
        self._kept.append(data)
        self._size += len(data)
        if self._size >= _WRITE:
            self.flush()

    def flush(self) -> None:
        assert self._socket is not None  # noqa: S101
        kept, self._kept, self._size = b"".join(self._kept), [], 0
        try:
            # Who sends nothing has nothing to say but that it is gone.
            if select.select([self._socket], [], [], 0)[0] and not self._peek():
                raise TransientError("the other side has ended the connection")
            self._socket.sendall(kept)
        except OSError as error:
            raise TransientError(error.strerror or str(error)) from None

    def _peek(self) -> bytes:
        assert self._socket is not None  # noqa: S101
        if isinstance(self._socket, ssl.SSLSocket):
            return b"?"  # records of its own come, too
        return self._socket.recv(1, socket.MSG_PEEK)

    def close(self) -> None:
        made, self._socket = self._socket, None
        if made is not None:
            made.close()

    def place(self) -> str:
        return self.options.connect
