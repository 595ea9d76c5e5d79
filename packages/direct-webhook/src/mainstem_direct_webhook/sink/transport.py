"""The transport under httpx: one connection, made by `Network`, over HTTP/1.1 or HTTP/2."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress

import httpcore
import httpx
from h2.exceptions import H2Error

from mainstem_direct_webhook.sink.network import Network

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
