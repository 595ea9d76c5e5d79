"""Makes connections: to addresses that were looked at, with TLS as told, within a deadline."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpcore
import httpx
from h2.exceptions import H2Error

from mainstem_direct_webhook.client.addresses import resolve

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


#: What may go wrong with a request, as the transport raises it.
FAULTS = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    OSError,
    H2Error,
)
#: Servers close idle connections after 5 seconds and more; one that may be closed is not used.
_KEEP_IDLE = 4.0


class Transport(httpx.BaseTransport):
    """Sends requests over a connection that a `Network` makes, which httpx's own can't be given.

    A request's extension `target` is what it asks for, as it is to be written.
    """

    def __init__(self, network: Network, context: ssl.SSLContext, *, http2: bool) -> None:
        self._network, self._context, self._http2 = network, context, http2
        self._pool = self._make_pool()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; raises one of `FAULTS`, or what the network does."""
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.extensions["target"],
        )
        response = self._pool.handle_request(
            httpcore.Request(
                request.method, url, headers=request.headers.raw, content=request.content
            )
        )
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response),
            extensions=response.extensions,
        )

    def renew(self) -> None:
        """End the connection, and make a new one for the next request."""
        self.close()
        self._pool = self._make_pool()

    def close(self) -> None:
        with suppress(*FAULTS):
            self._pool.close()

    def _make_pool(self) -> httpcore.ConnectionPool:
        return httpcore.ConnectionPool(
            ssl_context=self._context,
            max_connections=1,
            keepalive_expiry=_KEEP_IDLE,
            http2=self._http2,
            network_backend=self._network,
        )


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()
