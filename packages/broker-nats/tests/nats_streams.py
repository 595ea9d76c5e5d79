"""What the tests of the sources do at a server themselves: by nats-py alone, not by our client."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import nats
from nats.aio.client import Client
from nats.js.client import JetStreamContext

T = TypeVar("T")


def at(server: Any, work: Callable[[JetStreamContext, Client], Awaitable[T]]) -> T:
    """Do work over a connection of its own, and return its result."""

    async def whole() -> T:
        client = await nats.connect(server.url, connect_timeout=10, max_reconnect_attempts=3)
        try:
            return await work(client.jetstream(timeout=30), client)
        finally:
            await client.close()

    return asyncio.run(whole())


def unique(prefix: str) -> str:
    """Return a name that nothing else has."""
    return f"{prefix}_{uuid.uuid4().hex[:12]}"


def make_stream(server: Any, name: str = "", **config: Any) -> str:
    """Make a stream that takes `<name>.>`, unless `subjects` says otherwise; return its name."""
    name = name or unique("S")
    given = {"subjects": [f"{name}.>"], **config}

    async def make(js: JetStreamContext, _: Client) -> None:
        await js.add_stream(name=name, **given)

    at(server, make)
    return name


def publish(
    server: Any,
    subject: str | Callable[[Any], str],
    bodies: Iterable[Any],
    headers: Mapping[str, str] | None = None,
) -> None:
    """Publish to a stream, in order; a subject may depend on the body."""

    async def send(js: JetStreamContext, _: Client) -> None:
        for body in bodies:
            to = subject if isinstance(subject, str) else subject(body)
            data = body if isinstance(body, bytes) else str(body).encode()
            await js.publish(to, data, headers=dict(headers) if headers else None)

    at(server, send)


def publish_a_status(server: Any, subject: str, code: int) -> None:
    """Publish a message whose headers begin with a status, as the server's own words do.

    Servers of today take it away before they keep the message.
    """
    head = b"NATS/1.0 %d\r\na: b\r\n\r\n" % code
    put = b"HPUB %s %d %d\r\n%s\r\n" % (subject.encode(), len(head), len(head), head)
    with socket.create_connection(("127.0.0.1", server.port), 10) as made:
        made.sendall(b'CONNECT {"headers":true,"verbose":false}\r\n' + put + b"PING\r\n")
        said = b""
        while b"PONG" not in said:
            said += made.recv(65_536)


def publish_many(server: Any, subject: str, bodies: Iterable[bytes]) -> None:
    """Publish much to a stream, without an answer to each; wait until it has all."""

    async def send(js: JetStreamContext, client: Client) -> None:
        stream = await js.find_stream_name_by_subject(subject)
        last = (await js.stream_info(stream)).state.last_seq
        for body in bodies:
            await client.publish(subject, body)
            last += 1
            if last % 5000 == 0:
                await client.flush()
        for _ in range(600):
            if (await js.stream_info(stream)).state.last_seq == last:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"the stream has not taken {last} messages")

    at(server, send)


def say(server: Any, subject: str, bodies: Iterable[Any], **more: Any) -> None:
    """Publish by core NATS, and wait until the server has it all."""

    async def send(_: JetStreamContext, client: Client) -> None:
        for body in bodies:
            data = body if isinstance(body, bytes) else str(body).encode()
            await client.publish(subject, data, **more)
        for _ in range(2):  # the first ping may overtake what was published
            await client.flush()

    at(server, send)


def info(server: Any, stream: str) -> Any:
    """Return what JetStream says of a stream."""
    return at(server, lambda js, _: js.stream_info(stream))


def consumers(server: Any, stream: str) -> list[str]:
    """Return the names of a stream's consumers."""

    async def ask(js: JetStreamContext, _: Client) -> list[str]:
        return [found.name for found in await js.consumers_info(stream)]

    return at(server, ask)


def api(server: Any, verb: str, body: bytes = b"") -> bytes:
    """Return JetStream's own answer to a request."""

    async def ask(_: JetStreamContext, client: Client) -> bytes:
        return (await client.request(f"$JS.API.{verb}", body, timeout=30)).data

    return at(server, ask)


class Speaker:
    """Says things by core NATS, each when somebody listens: until then it holds them back."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._told: queue.Queue[tuple[str, bytes] | None] = queue.Queue()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._speak()))
        self._thread.start()

    def say(self, subject: str, bodies: Iterable[Any]) -> None:
        """Let things be said, in order."""
        for body in bodies:
            self._told.put((subject, str(body).encode()))

    def close(self) -> None:
        """Say nothing more."""
        self._closed = True
        self._told.put(None)
        self._thread.join()

    _closed = False

    async def _speak(self) -> None:
        while (told := await asyncio.to_thread(self._told.get)) is not None:
            while not self._closed:
                try:
                    if await self._heard(*told):
                        break
                except (nats.errors.Error, OSError):
                    self._client = None  # the server is away
                await asyncio.sleep(0.05)
        if self._client is not None:
            await self._client.close()

    _client: Client | None = None

    async def _heard(self, subject: str, body: bytes) -> bool:
        """Say something; whether somebody listened. Of what nobody listens to the server tells."""
        if self._client is None:
            self._client = await nats.connect(
                self._server.url, allow_reconnect=False, max_reconnect_attempts=1
            )
        inbox = self._client.new_inbox()
        answers = await self._client.subscribe(inbox)
        await self._client.publish(subject, body, inbox)
        for _ in range(2):  # the first ping may overtake what was published
            await self._client.flush(5)
        heard = answers.pending_msgs == 0
        await answers.unsubscribe()
        return heard


def spans(planner, start, end):
    """Return the sequences that the tasks of a batch read: after one, up to another."""
    return [(part.after, part.end) for part in planner.parts(start, end)]


def reading(options, tasks=2, **more):
    """Return a read of the source `jetstream`, as `load` makes it."""
    from mainstem.positions.reading import PositionReading
    from mainstem_broker_nats.source.jetstream import JetStreamSource

    source = JetStreamSource(options)
    return PositionReading(
        open=source.opener("t"),
        begin=source.begin(),
        give_up=options.give_up.total_seconds(),
        tasks=tasks,
        rows_per_task=options.rows_per_task,
        max_rows=options.max_rows,
        gaps=options.on_loss,
        columns=source.columns,
        **more,
    )
