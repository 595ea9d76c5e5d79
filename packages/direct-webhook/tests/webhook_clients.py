"""What the tests of the source need: senders, requests as they are on the wire, and servers to send to."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from mainstem_direct_webhook.source.options import WebhookSourceOptions
from mainstem_direct_webhook.source.receiver import WebhookReceiver
from mainstem_testkit.server import free_port

#: Requests of a sender that are on their way at once.
_AT_ONCE = 64
_AGAIN = 0.05
_PATIENCE = 20.0
#: What a server that ends does to its clients.
_TROUBLE = (OSError, ValueError, IndexError, asyncio.IncompleteReadError)


class Reply(NamedTuple):
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        """Its problem details."""
        assert self.headers["content-type"] == "application/problem+json", self
        return json.loads(self.body)


def wire(
    path: str = "/in",
    body: bytes = b"x",
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    method: str = "POST",
    close: bool = True,
) -> bytes:
    """Return a request as bytes."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *(f"{n}: {v}" for n, v in pairs)]
    if not any(n.lower() in ("content-length", "transfer-encoding") for n, _ in pairs):
        lines.append(f"Content-Length: {len(body)}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def connect(port: int, context: ssl.SSLContext | None = None) -> socket.socket:
    """Return a connection to a server on this machine."""
    made = socket.create_connection(("127.0.0.1", port), _PATIENCE)
    return made if context is None else context.wrap_socket(made, server_hostname="localhost")


def read_reply(connection: socket.socket) -> Reply:
    """Read one answer.

    Raises:
        OSError: there is none, or not a whole one.
    """
    stream = connection.makefile("rb")
    line = stream.readline()
    if not line:
        raise ConnectionResetError("closed without an answer")
    headers = {}
    while (header := stream.readline()) not in (b"\r\n", b""):
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    return Reply(
        int(line.split()[1]), headers, stream.read(int(headers.get("content-length", "0")))
    )


def ask(
    port: int, request: bytes | None = None, context: ssl.SSLContext | None = None, **of: Any
) -> Reply:
    """Send one request, given as bytes or as arguments of `wire`, and return its answer."""
    with connect(port, context) as connection:
        with suppress(ConnectionError):  # the answer to a part of it may be there already
            connection.sendall(wire(**of) if request is None else request)
        return read_reply(connection)


class Sender:
    """Sends messages as a careful client does: each again and again until it is answered with 2xx.

    Requests come to the server in the order of their numbers, and wait for their answers side by side: a
    body is sent when the server has asked for it, and the next request after it.
    """

    def __init__(self, port: int, request: Callable[[int], bytes]) -> None:
        self._port, self._request = port, request
        #: Numbers that were answered with 2xx, and those that are to be sent, perhaps again.
        self.answered: set[int] = set()
        self.put: set[int] = set()
        self._pending: set[int] = set()
        self._loop = asyncio.new_event_loop()
        self._news = asyncio.Event()
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[Any] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._loop.call_soon_threadsafe(self._begin, self._work())

    def send(self, numbers: Iterable[int]) -> None:
        """Begin to send a message of each number."""
        made = set(numbers)
        self.put |= made
        self._loop.call_soon_threadsafe(self._add, made)

    @property
    def left(self) -> int:
        """How many messages were not answered with 2xx."""
        return len(self.put) - len(self.answered)

    def close(self) -> None:
        """Give up what was not answered."""

        async def cancel() -> None:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(cancel(), self._loop).result(_PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _add(self, numbers: set[int]) -> None:
        self._pending |= numbers
        self._news.set()

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._pending:
                await self._room.acquire()
                number = min(self._pending)
                try:
                    reader, writer = await self._sent(self._request(number))
                except _TROUBLE:
                    self._room.release()
                    await asyncio.sleep(_AGAIN)
                else:
                    self._pending.discard(number)
                    self._begin(self._answer(number, reader, writer))

    async def _sent(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request whose body the server has asked for."""
        head, body = request.split(b"\r\n\r\n", 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(head + b"\r\nExpect: 100-continue\r\n\r\n")
            if await _status(reader) != 100:
                raise ConnectionError("refused")
            await reader.readline()
            writer.write(body)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def _answer(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            if 200 <= await _status(reader) < 300:
                self.answered.add(number)
        except _TROUBLE:
            pass
        finally:
            writer.close()
            self._room.release()
            if number not in self.answered:
                self._add({number})


async def _status(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


def options(**changes: Any) -> WebhookSourceOptions:
    """Return options of a source on a free port with one path, `/in`, that lets everybody in."""
    given = {"port": free_port(), "paths": {"/in": {"verify": {"use": "none"}}}}
    return WebhookSourceOptions.model_validate({**given, **changes})


class Stand:
    """A receiver whose messages are acknowledged as they come, in a thread; and all of them."""

    def __init__(self, given: WebhookSourceOptions) -> None:
        self.receiver = WebhookReceiver(given, 0, "rows")
        self.port = given.port
        self.messages: list[Any] = []
        #: Cleared, what comes is taken and not acknowledged.
        self.storing = threading.Event()
        self.storing.set()
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._held: list[Any] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        assert self._ready.wait(_PATIENCE)

    def _work(self) -> None:
        self.receiver.connect(None)
        self._ready.set()
        while not self._stop.is_set():
            self._held += self.receiver.take(0.05)
            if self._held and self.storing.is_set():
                self.messages += self._held
                self.receiver.acknowledge(self._held)
                self._held = []
        self.receiver.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive(), "the receiver does not end"


@contextmanager
def standing(**changes: Any) -> Iterator[Stand]:
    """A receiver that serves; `changes` are to its options."""
    stand = Stand(options(**changes))
    try:
        yield stand
    finally:
        stand.close()
