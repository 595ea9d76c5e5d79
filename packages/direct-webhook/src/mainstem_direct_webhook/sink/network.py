"""Makes connections: to addresses that were looked at, with TLS as told, within a deadline."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from typing import Any

import httpcore

from mainstem_direct_webhook.sink.addresses import resolve

#: How long to try to connect to one address, in seconds.
_CONNECT = 10.0
_PIECE = 16 * 1024


class Network(httpcore.NetworkBackend):
    """Makes connections for one thread, to addresses that were looked at, and within a deadline.

    Args:
        allow_private: whether addresses may be such as are not public.

    Attributes:
        deadline: by `time.monotonic`, when each step of a connection must have ended.
    """

    def __init__(self, allow_private: bool) -> None:
        self.deadline = 0.0
        self._aborted = False
        self._allow_private = allow_private
        self._backend = httpcore.SyncBackend()
        self._stream: httpcore.NetworkStream | None = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        addresses = resolve(host, port, allow_private=self._allow_private)
        for number, address in enumerate(addresses, 1):
            left = min(self.left(httpcore.ConnectTimeout), _CONNECT)
            try:
                # The address, not the name: that could stand for another one by now.
                stream = self._backend.connect_tcp(address, port, left, None, socket_options or ())
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if number == len(addresses):
                    raise
            else:
                return self.wrapped(stream)
        raise httpcore.ConnectError("the name has no address")

    def wrapped(self, stream: httpcore.NetworkStream) -> httpcore.NetworkStream:
        """Return a stream that is held to the deadline, and the one that `abort` ends."""
        self._stream = stream
        return _Stream(stream, self)

    def left(self, over: type[Exception]) -> float:
        """Return how many seconds there are until the deadline.

        Raises:
            over: none.
        """
        left = self.deadline - time.monotonic()
        if left <= 0 or self._aborted:
            raise over("timed out")
        return left

    def abort(self) -> None:
        """End the connection from another thread."""
        self._aborted = True
        if self._stream is not None:
            found = self._stream.get_extra_info("socket")
            with suppress(OSError):
                # Not SSLSocket's, which takes the TLS away from whoever is reading.
                socket.socket.shutdown(found, socket.SHUT_RDWR)


class _Stream(httpcore.NetworkStream):
    """A stream each of whose steps ends at the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, network: Network) -> None:
        self._stream = stream
        self._network = network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._network.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In pieces: a timeout starts over with each that the external system takes.
        for start in range(0, len(buffer), _PIECE):
            left = self._network.left(httpcore.WriteTimeout)
            self._stream.write(buffer[start : start + _PIECE], left)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = self._network.left(httpcore.ConnectTimeout)
        secured = self._stream.start_tls(ssl_context, server_hostname, left)
        return self._network.wrapped(secured)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
