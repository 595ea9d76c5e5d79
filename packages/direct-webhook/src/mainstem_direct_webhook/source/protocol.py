"""One connection: uvicorn's protocol, which a slow or greedy client can't keep busy."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mainstem_direct_webhook.source.answers import Refused
from mainstem_direct_webhook.source.options import Limits

#: How long a client that was cut off may take to read why, in seconds.
_FAREWELL = 1.0
_DETAILS = {
    400: "The request is not HTTP/1.1.",
    408: "The request took too long.",
    431: "The headers are too large.",
}


class Protocol(HttpToolsProtocol):
    """A connection that knows until when its client must have done what it is to do next.

    A head must be whole within `head_time` of its first byte (the first of a connection, of its
    opening), a body within `body_time` of the head, and between requests `idle_time` may pass. Who
    does not keep to that is cut off by `reap`.
    """

    limits: ClassVar[Limits]
    deadline = math.inf
    _in_head = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        peer = transport.get_extra_info("peercert")
        if peer:
            self.app_state = {**self.app_state, "peer": peer}
        self.deadline = self.loop.time() + self.limits.head_time.total_seconds()

    def data_received(self, data: bytes) -> None:
        # Of the piece in which a head begins, what is before it is not its own.
        later = self._in_head
        super().data_received(data)
        if later and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.limits.head_bytes:
                self._end(431)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self.deadline = self.loop.time() + self.limits.head_time.total_seconds()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False
        self.deadline = self.loop.time() + self.limits.body_time.total_seconds()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.deadline = math.inf

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:
            idle = self.loop.time() + self.limits.idle_time.total_seconds()
            self.deadline = min(self.deadline, idle)

    def reap(self, now: float) -> None:
        """Cut the client off if its time is over."""
        if now < self.deadline or self.transport.is_closing():
            return
        started = self.cycle is not None and self.cycle.response_started
        if self._in_head or (self.cycle is not None and not started):
            self._end(408)
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._end(400)

    def _end(self, status: int) -> None:
        """Answer with a problem, and end the connection, whether the client reads or not."""
        _, headers, body = Refused(status, _DETAILS[status]).answer()
        lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode())]
        lines += [b"%s: %s" % pair for pair in (*headers, (b"connection", b"close"))]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
        self.transport.close()
        self.loop.call_later(_FAREWELL, self.transport.abort)


def protocol_of(limits: Limits) -> type[Protocol]:
    """Return the class of connections with limits."""
    return type("LimitedProtocol", (Protocol,), {"limits": limits})


async def reap(connections: Iterable[Any], limits: Limits) -> None:
    """Cut off clients whose time is over, for ever."""
    shortest = min(limits.head_time, limits.body_time, limits.idle_time).total_seconds()
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(min(1.0, shortest / 4))
        for connection in list(connections):
            connection.reap(loop.time())


def server_context(
    certificate: str, key: str | None, password: str | None, ca: str | None
) -> ssl.SSLContext:
    """Return what the server needs for TLS; with `ca`, clients are asked for certificates.

    Raises:
        OSError: a file can't be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key, password=password or "")
    if ca is not None:
        context.load_verify_locations(ca)
        # Who shows none is refused where one is asked for: other paths, and health, need none.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
