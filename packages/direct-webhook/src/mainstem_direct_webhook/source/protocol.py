"""One connection: uvicorn's protocol, which a slow or greedy client can't keep busy."""

from __future__ import annotations

import asyncio
import gc
import math
import ssl
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, ClassVar

import httptools
from mainstem import PermanentError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mainstem_direct_webhook.source.answers import Refused
from mainstem_direct_webhook.source.options import Limits

#: How long a client that was cut off may take to read why, in seconds.
_FAREWELL = 1.0
#: How many requests of a connection may wait for the answer before theirs; above it, nothing is read.
_WAITING = 8
#: How many bytes the parser is given at once: of heads, so many that few requests are in them.
_OF_HEADS, _OF_A_BODY = 1024, 16 * 1024
#: How many bytes of all connections may wait to be parsed; whoever brings more is cut off.
_HELD = 64 * 1024 * 1024
#: How many connections may have ended before what they leave is freed.
_ENDED = 2048
#: What says how a body ends.
_FRAMING = (b"content-length", b"transfer-encoding")
#: What is called by uvicorn or httptools, and replaced here.
_CALLED = (
    "connection_made",
    "connection_lost",
    "data_received",
    "on_message_begin",
    "on_url",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    "on_response_complete",
    "send_400_response",
)
_DETAILS = {
    400: "The request is not HTTP/1.1.",
    408: "The request took too long.",
    431: "The headers are too large.",
}


class _Parser:
    """A parser that reads on after a request to change protocols, which is never done.

    httptools takes it that no HTTP follows the head of such a request, so it reads no body.

    Args:
        parser: of a connection, from its beginning.
        body: makes the parser for what follows such a head.
    """

    def __init__(self, parser: Any, body: Callable[[], Any]) -> None:
        self._parser, self._body = parser, body

    def feed_data(self, data: bytes) -> None:
        """Read a piece; raises `httptools.HttpParserError` of what is no HTTP."""
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as end:
                data = data[end.args[0] :]
                self._parser = self._body()
            else:
                return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


class Held:
    """What all connections of a server hold: bytes that wait to be parsed, and those that have ended.

    A transport of asyncio's has its own methods, so only the search for garbage frees it. By the count of
    new objects that comes late: those that were open at one search wait for ten more.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.ended = 0

    def free(self) -> None:
        """Free the connections that have ended, where they are many."""
        if self.ended >= _ENDED:
            self.ended = 0
            gc.collect()


class Protocol(HttpToolsProtocol):
    """A connection that knows until when its client must have done what it is to do next.

    Requests may come before earlier ones are answered (RFC 9112, section 9.3.2). A few wait; what follows
    them is neither parsed nor read until there is room, so that what a connection takes of memory does
    not grow with what is sent.

    A head must be whole within `head_time` of its first byte (the first of a connection, of its
    opening), a body within `body_time` of the head, and between requests `idle_time` may pass, as it
    may until answers are read. Who does not keep to that is cut off by `reap`.
    """

    limits: ClassVar[Limits]
    held: ClassVar[Held]
    deadline = math.inf
    #: Where the client is.
    address = ""
    _in_head = False
    _upgrading = False
    #: While the parser of a body is told how the body ends.
    _muted = False
    #: How many heads, pieces of bodies and ends have come; and the bytes that have come without one.
    _steps = 0
    _other_bytes = 0
    #: When all that was written had been read.
    _all_read = 0.0
    #: Whether a body is being read.
    _in_body = False
    #: Whether the connection ends with what was answered: what else comes on it is thrown away.
    _ended = False

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.parser: Any = _Parser(self.parser, self._parser_of_body)
        self._unparsed = bytearray()
        self._parsing = False
        limits = self.limits
        self._head_time = limits.head_time.total_seconds()
        self._body_time = limits.body_time.total_seconds()
        self._idle_time = limits.idle_time.total_seconds()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("peercert")
        if peer:
            self.app_state = {**self.app_state, "peer": peer}
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self._all_read = self.loop.time()
        self.deadline = self._all_read + self._head_time

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self.held.ended += 1
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self.held.bytes += len(data)
        self._unparsed += data
        if self.held.bytes > _HELD and self._full():
            self._forget()
            self.transport.abort()
            return
        self._parse()

    def _full(self) -> bool:
        """Whether no more requests may wait."""
        return len(self.pipeline) >= _WAITING

    def _parse(self) -> None:
        """Parse what has come, as long as there is room for requests; read on if all is parsed."""
        if self._parsing:
            return  # an answer that came while a request was parsed
        self._parsing = True
        try:
            while self._unparsed and not self._full() and not self._ended:
                piece = bytes(self._unparsed[: _OF_A_BODY if self._in_body else _OF_HEADS])
                del self._unparsed[: len(piece)]
                self.held.bytes -= len(piece)
                self._parse_piece(piece)
        finally:
            self._parsing = False
        if self._ended:
            self._forget()
        elif self._unparsed:
            self.flow.pause_reading()

    def _parse_piece(self, piece: bytes) -> None:
        before = self._steps
        super().data_received(piece)
        # What brings no step is part of a head, a chunk's extension, or trailers.
        self._other_bytes = self._other_bytes + len(piece) if self._steps == before else 0
        if self._other_bytes > self.limits.head_bytes:
            self._end(431)

    def _forget(self) -> None:
        """Throw away what was not parsed."""
        self.held.bytes -= len(self._unparsed)
        self._unparsed.clear()

    def on_message_begin(self) -> None:
        if self._muted:
            return
        super().on_message_begin()
        self._in_head = True
        self._steps += 1
        self.deadline = self.loop.time() + self._head_time

    def on_url(self, url: bytes) -> None:
        if not self._muted:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers are thrown away, as they may be (RFC 9110, section 6.5.1)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._muted:
            self._muted = self._upgrading = False
            return
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise ValueError("a request names one host")  # RFC 9112, section 3.2; answered with 400
        super().on_headers_complete()
        self._in_head, self._in_body = False, True
        self._steps += 1
        self._upgrading = self.parser.should_upgrade()
        self.deadline = self.loop.time() + self._body_time

    def on_body(self, body: bytes) -> None:
        self._steps += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._upgrading:
            return
        super().on_message_complete()
        self._steps += 1
        self._in_body = False
        # An answer may come before the end of its request.
        self.deadline = self._idle() if self.cycle.response_complete else math.inf

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:
            self.deadline = min(self.deadline, self._idle())
        self._parse()

    def reap(self, now: float) -> None:
        """Cut the client off if its time is over."""
        if not self.transport.get_write_buffer_size():
            self._all_read = now
        elif now - self._all_read > self._idle_time:
            self.transport.abort()  # it does not read its answers, or not why it is cut off
            return
        if self._unparsed or now < self.deadline or self.transport.is_closing():
            return
        started = self.cycle is not None and self.cycle.response_started
        if self._in_head or (self.cycle is not None and not started):
            self._end(408)
        else:
            self.transport.close()

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn: nothing of it is answered at present."""
        return self.cycle is None or self.cycle.response_complete or self.deadline < math.inf

    def _idle(self) -> float:
        return self.loop.time() + self._idle_time

    def _parser_of_body(self) -> Any:
        """Return a parser to which the head is known, so that what follows is its body."""
        made = httptools.HttpRequestParser(self)
        lines = [b"%s: %s\r\n" % pair for pair in self.headers if pair[0] in _FRAMING]
        self._muted = True
        made.feed_data(b"".join((b"POST / HTTP/1.1\r\n", *lines, b"\r\n")))
        return made

    def send_400_response(self, msg: str) -> None:
        self._end(400)

    def _end(self, status: int) -> None:
        """Answer with a problem, and end the connection, whether the client reads or not."""
        if self._ended:
            return
        self._ended = True
        _, headers, body = Refused(status, _DETAILS[status]).answer()
        lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode())]
        lines += [b"%s: %s" % pair for pair in (*headers, (b"connection", b"close"))]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
        self.transport.close()
        self.loop.call_later(_FAREWELL, self.transport.abort)


def protocol_of(limits: Limits) -> type[Protocol]:
    """Return the class of connections with limits.

    Raises:
        PermanentError: uvicorn has changed so much that limits would not be kept.
    """
    missing = [name for name in _CALLED if not hasattr(HttpToolsProtocol, name)]
    if missing:
        raise PermanentError(f"this version of uvicorn has no {missing[0]}; limits need it")
    return type("LimitedProtocol", (Protocol,), {"limits": limits, "held": Held()})


async def reap(connections: Iterable[Any], kind: type[Protocol]) -> None:
    """Cut off clients whose time is over, and free what ended connections leave, for ever."""
    limits = kind.limits
    shortest = min(limits.head_time, limits.body_time, limits.idle_time).total_seconds()
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(min(1.0, shortest / 4))
        for connection in list(connections):
            connection.reap(loop.time())
        kind.held.free()


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
