"""What the tests of sinks do at a server themselves, over a connection of nats-py of their own."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from contextlib import suppress
from typing import Any

import nats
from nats.js.api import ConsumerConfig, StreamConfig


def at(url: str, work: Any) -> Any:
    """Run `work(client, jetstream)` on a connection of its own and return what it returns."""

    async def run() -> Any:
        client = await nats.connect(url)
        try:
            return await work(client, client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def make(url: str, name: str = "", **config: Any) -> str:
    """Make a stream that takes `<name>.>` unless told else, and return its name."""
    name = name or f"s{uuid.uuid4().hex[:12]}"
    given = {"subjects": [f"{name}.>"], "duplicate_window": 600.0, **config}

    async def work(_: Any, js: Any) -> None:
        await js.add_stream(StreamConfig(name=name, **given))

    at(url, work)
    return name


def read(url: str, name: str) -> list[Any]:
    """Return all messages of a stream, in its order; none is taken, and there may be no stream."""

    async def work(_: Any, js: Any) -> list[Any]:
        try:
            count = (await js.stream_info(name)).state.messages
        except nats.js.errors.NotFoundError:
            return []
        if not count:
            return []
        reading = await js.pull_subscribe("", stream=name, config=ConsumerConfig(ack_policy="none"))
        found: list[Any] = []
        while len(found) < count:
            found += await reading.fetch(min(500, count - len(found)), timeout=5)
        return found

    return at(url, work)  # type: ignore[no-any-return]


def bodies(url: str, name: str) -> list[bytes]:
    return [message.data for message in read(url, name)]


def info(url: str, name: str) -> Any:
    async def work(_: Any, js: Any) -> Any:
        return await js.stream_info(name)

    return at(url, work)


class Listener:
    """Listens on a subject of core NATS in a thread of its own, also over restarts of the server."""

    def __init__(self, url: str, subject: str) -> None:
        self._found: list[Any] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = self._run(self._listen(url, subject))

    def quiet(self, seconds: float = 0.3) -> list[Any]:
        """Return all messages there have been, once none has come for a while."""
        while True:
            before = len(self._found)
            with suppress(Exception):  # the server is away, and nothing comes
                self._run(self._client.flush(2))
            time.sleep(seconds)
            if len(self._found) == before:
                return list(self._found)

    def close(self) -> None:
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self, url: str, subject: str) -> Any:
        async def keep(message: Any) -> None:
            self._found.append(message)

        async def ignore(_: Exception) -> None:
            pass  # it connects anew

        given = {"reconnect_time_wait": 0.1, "max_reconnect_attempts": -1, "error_cb": ignore}
        client = await nats.connect(url, **given)
        await client.subscribe(subject, cb=keep)
        await client.flush()
        return client

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(15)
