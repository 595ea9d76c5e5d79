"""The ASGI application: reads requests, hands their messages over, answers when they are on disk."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from mainstem import failpoint
from mainstem_ingress import Message

from mainstem_direct_webhook.source.answers import Answer, Refused, busy, plain
from mainstem_direct_webhook.source.endpoint import Endpoint, Head
from mainstem_direct_webhook.source.handoff import Handover
from mainstem_direct_webhook.source.options import WebhookSourceOptions


class Limiter:
    """Token buckets by client.

    Args:
        rate: tokens that come back in a second.
        burst: the most tokens of a client.
        clients: how many are remembered; the one not seen for longest is forgotten, with its bucket.
    """

    def __init__(self, rate: float, burst: int, clients: int) -> None:
        self._rate, self._burst, self._most = rate, float(burst), clients
        #: Tokens, and when they were counted.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, now: float) -> int:
        """Take a token; return 0, or after how many whole seconds there is one again.

        Args:
            client: an address.
            now: in seconds, of a clock that never goes back.
        """
        name = _network(client)
        tokens, since = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        seconds = 0 if tokens >= 1 else max(1, math.ceil((1 - tokens) / self._rate))
        self._buckets[name] = (tokens if seconds else tokens - 1, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return seconds

    def __len__(self) -> int:
        return len(self._buckets)


def _network(client: str) -> str:
    """Return what a client can't change at will: of an IPv6 address the first 64 bits."""
    if ":" not in client:
        return client
    try:
        address = ipaddress.IPv6Address(client.partition("%")[0])
    except ValueError:
        return client
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.packed[:8].hex()


_NONE: Mapping[str, str] = {}


class Routes:
    """Endpoints by path; one without parameters goes before those with."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._exact: dict[str, Endpoint] = {}
        self._patterns: list[tuple[re.Pattern[str], Endpoint]] = []
        for endpoint in endpoints:
            if "{" in endpoint.path:
                self._patterns.append((_pattern(endpoint.path), endpoint))
            else:
                self._exact[endpoint.path] = endpoint

    def find(self, path: str) -> tuple[Endpoint, Mapping[str, str]] | None:
        """Return the endpoint of a path, and the values of its parameters."""
        endpoint = self._exact.get(path)
        if endpoint is not None:
            return endpoint, _NONE
        for pattern, each in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                return each, match.groupdict()
        return None


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{([a-z][a-z0-9_]*)\}", path)
    texts = [
        f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts)
    ]
    return re.compile("".join(texts))


Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

#: How much of the body of a refused request is read and thrown away, and for how many seconds: a client
#: hears the answer, and can keep its connection, only when it was let speak to its end.
_DRAINED, _DRAIN_TIME = 4 * 2**20, 1.0
_LATER = "Messages are not taken at present."
_CLOSE = (b"connection", b"close")


class Gone(Exception):  # noqa: N818
    """The client has gone before its request was whole."""


class Application:
    """Answers requests; what they brought it leaves with `handover`, which is set before the first."""

    handover: Handover

    def __init__(self, options: WebhookSourceOptions) -> None:
        self._routes = Routes(
            Endpoint(path, each, options.ids, options.max_message, options.limits)
            for path, each in options.paths.items()
        )
        self._limits = options.limits
        self._health, self._readiness = options.health, options.readiness
        rate = options.rate
        self._limiter: Limiter | None = None
        if rate is not None:
            per_second = rate.requests / rate.per.total_seconds()
            self._limiter = Limiter(per_second, rate.burst or rate.requests, rate.clients)
        # Without a body: that would be a second call of the kernel for each answer.
        length = [] if options.status == 204 else [(b"content-length", b"0")]
        self._stored = Answer(options.status, length)
        #: Those that are open; the server's.
        self.connections: Collection[Any] = ()
        #: Whether messages are taken; else the answer is 503.
        self.accepting = True
        #: How many requests were answered, by status.
        self.answers: Counter[int] = Counter()
        self._closing = False
        #: Bytes of bodies that are being read or wait.
        self._pending = 0
        self._waiting: set[asyncio.Future[bool]] = set()

    def close(self) -> None:
        """Answer those who wait, and all to come, with 503: what was not stored is not kept."""
        self._closing = True
        self.accepting = False
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            try:
                answer = await self._answer(scope, receive)
            except Refused as refused:
                answer = await self._refusal(refused, scope, receive)
        except Gone:
            return
        except Exception:
            logging.getLogger(__name__).exception("a request was not answered")
            answer = Refused(500, "The server has failed.", [_CLOSE]).answer()
        self.answers[answer.status] += 1
        headers = [*answer.headers, _CLOSE] if self._closing else answer.headers
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        if answer is self._stored:
            failpoint("webhook.after-answer")

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path: str = scope["path"]
        if path == self._health or path == self._readiness:
            return self._told(path, scope["method"])
        pairs = scope["headers"]
        self._small(scope, pairs)
        if self._limiter is not None and scope["client"]:
            seconds = self._limiter.wait(scope["client"][0], time.monotonic())
            if seconds:
                retry = (b"retry-after", b"%d" % seconds)
                raise Refused(429, "Too many requests.", [retry])
        found = self._routes.find(path)
        if found is None:
            raise Refused(404, "There is no such path.")
        endpoint, parameters = found
        peer = scope["state"].get("peer", {}) if "state" in scope else {}
        query = scope["query_string"]
        head = Head(scope["method"], path, parameters, pairs, dict(pairs), peer, query)
        greeting = endpoint.greeting(head)
        if greeting is not None:
            return greeting
        endpoint.admit(head, time.time())
        if not self.accepting:
            raise busy(_LATER)
        held = 0
        try:
            chunks: list[bytes] = []
            self._fits(int(head.headers.get(b"content-length", b"0")), endpoint.most)
            more = True
            while more:
                event = await receive()
                if event["type"] != "http.request":
                    raise Gone
                chunk = event["body"]
                held += len(chunk)
                self._pending += len(chunk)
                self._fits(held, endpoint.most, 0)
                chunks.append(chunk)
                more = event["more_body"]
            try:
                return await self._store(endpoint, head, b"".join(chunks))
            except Refused as refused:  # its body is read: nothing is left to throw away
                return refused.answer()
        finally:
            self._pending -= held

    async def _store(self, endpoint: Endpoint, head: Head, body: bytes) -> Answer:
        """Hand a request's messages over, and wait until they are stored."""
        found = endpoint.messages(head, body, time.time())
        if isinstance(found, Answer):
            return found
        failpoint("webhook.verified")
        if not found:
            return self._stored
        if self._closing:
            raise busy(_LATER)
        plain = len(found) == 1 and len(found[0].value or b"") <= len(body)
        size = len(body) if plain else sum(map(_size, found))
        more = max(0, size - len(body))
        if size > self._limits.pending_bytes:
            raise Refused(413, "Its messages, each with its headers, are too large together.")
        if self._pending + more > self._limits.pending_bytes:
            raise busy(_LATER)
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        self._pending += more
        try:
            self.handover.put(found, size, len(self.connections), waiting)
            failpoint("webhook.handed-over")
            if not await waiting:
                raise busy(_LATER)
        finally:
            self._pending -= more
            self._waiting.discard(waiting)
        failpoint("webhook.before-answer")
        return self._stored

    def _told(self, path: str, method: str) -> Answer:
        if method not in ("GET", "HEAD"):
            raise Refused(405, "This path takes other methods.", [(b"allow", b"GET, HEAD")])
        if path == self._readiness and not self.accepting:
            raise busy(_LATER)
        return plain(200, b'{"status":"ok"}', b"application/json")

    def _small(self, scope: Scope, pairs: list[tuple[bytes, bytes]]) -> None:
        limits = self._limits
        size = len(scope["raw_path"]) + len(scope["query_string"])
        for name, value in pairs:
            size += len(name) + len(value) + 4
        if size > limits.head_bytes or len(pairs) > limits.headers:
            raise Refused(431, "The headers are too large.", [_CLOSE])

    def _fits(self, size: int, most: int, new: int | None = None) -> None:
        """Refuse a body of a size, of which `new` bytes are not yet counted as pending."""
        if size > most:
            raise Refused(413, f"A body has {most:,} bytes at most.")
        if self._pending + (size if new is None else new) > self._limits.pending_bytes:
            raise busy("Too much is being read.")

    async def _refusal(self, refused: Refused, scope: Scope, receive: Receive) -> Answer:
        """Return the answer to a refused request; its connection ends if its body goes on."""
        answer = refused.answer()
        if _CLOSE in answer.headers:
            return answer
        ended = False
        if all(name != b"expect" for name, _ in scope["headers"]):
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_TIME):
                    ended = await self._drained(receive)
        return answer if ended else answer._replace(headers=[*answer.headers, _CLOSE])

    async def _drained(self, receive: Receive) -> bool:
        """Throw a body away; whether that was all of it."""
        left = _DRAINED
        while left > 0:
            event = await receive()
            if event["type"] != "http.request":
                raise Gone
            left -= len(event["body"])
            if not event["more_body"]:
                return True
        return False


def _size(message: Message) -> int:
    """Return the bytes of a value and its headers."""
    size = len(message.value or b"")
    return size + sum([len(name) + len(value) for name, value in message.headers or ()])
