"""A TCP proxy that breaks connections on demand."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
_CHUNK = 64 * 1024
#: How finely a throttled connection is held back, in seconds.
_SLICE = 0.01
#: How long noise may be read before its connection is cut, in seconds.
_NOISE = 0.05


class FaultProxy:
    """Stands between a client and a server on this machine, and passes everything on until told else.

    All of its switches act at once, on connections that are open and on those to come. Use it as a
    context manager, or `close` it.

    Args:
        port: the server's port on 127.0.0.1.
        at: where clients connect; any port that is free for 0.
        tls: how clients encrypt, who do not know that the server does not; None for not at all.

    Attributes:
        port: where clients connect.
        connections: how many there have been.
    """

    def __init__(self, port: int, at: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._target = port
        self._delay = 0.0
        self._rate: float | None = None
        self._refusing = False
        self._silent = self._noisy = False
        self._answers = 0
        self._drop_answer: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._wait(asyncio.start_server(self._serve, "127.0.0.1", at, ssl=tls))
        self.port = int(self._server.sockets[0].getsockname()[1])

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- faults -----------------------------------------------------------------------------

    def delay(self, seconds: float) -> None:
        """Hold back each piece of data, in both directions, for so long."""
        self._delay = seconds

    def throttle(self, bytes_per_second: float | None) -> None:
        """Let no more through on a connection and direction than this; None lets all through."""
        self._rate = bytes_per_second

    def blackhole(self, on: bool = True) -> None:
        """Take data and pass on none of it, in either direction; connections stay open."""
        self._silent = on

    def refuse(self, on: bool = True) -> None:
        """End connections as soon as they are made."""
        self._refusing = on

    def cut(self) -> None:
        """End all open connections, without a farewell (RST)."""
        self._wait(self._cut())

    def drop_answer(self, number: int = 1) -> None:
        """Cut a connection instead of passing on the n-th piece of data from the server, from now.

        What the client asked for has then been done, and the client does not know.
        """
        self._answers, self._noisy = 0, False
        self._drop_answer = number

    def garble(self, number: int = 1) -> None:
        """Pass on noise instead of the n-th piece of data from the server, from now, then cut all."""
        self.drop_answer(number)
        self._noisy = True

    def heal(self) -> None:
        """End all faults; connections that were cut stay so."""
        self._delay, self._rate = 0.0, None
        self._silent = self._refusing = self._noisy = False
        self._drop_answer = None

    def close(self) -> None:
        """End the proxy and its connections."""
        self._wait(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    # -- inside the loop --------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            if self._refusing:
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(far_writer)
            try:
                await asyncio.gather(
                    self._pass(reader, far_writer, answers=False),
                    self._pass(far_reader, writer, answers=True),
                )
            finally:
                self._end(far_writer)
        except OSError:
            pass
        finally:
            self._end(writer)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        while data := await reader.read(_CHUNK):
            if answers and self._drop_answer is not None:
                self._answers += 1
                if self._answers == self._drop_answer:
                    self._drop_answer = None
                    if self._noisy:
                        writer.write(os.urandom(len(data)))
                        await asyncio.sleep(_NOISE)  # a cut takes back what was not read
                        await writer.drain()
                    await self._cut()
                    return
            if self._delay:
                await asyncio.sleep(self._delay)
            passed = 0.0
            while (rate := self._rate) and passed < len(data):  # asked often: it may be healed
                await asyncio.sleep(_SLICE)
                passed += rate * _SLICE
            if not self._silent:
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            if writer.can_write_eof():
                writer.write_eof()
            else:  # TLS has no half that is closed
                writer.close()

    async def _shut(self) -> None:
        self._server.close()
        await self._cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others, timeout=5) if others else None

    async def _cut(self) -> None:
        for writer in list(self._writers):
            self._end(writer)

    def _end(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.transport.abort()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)


#: How long a restart keeps clients away, in seconds.
_AWAY = 0.5


class Afar:
    """A server behind a way that can be shut: while that is so it is "stopped", and it keeps all.

    For emulators, which end with what they hold, or answer before they have it again.

    Args:
        server: does all else.
        proxy: the way to it.
    """

    def __init__(self, server: Any, proxy: FaultProxy) -> None:
        self._server, self._proxy = server, proxy
        self.port = proxy.port
        self.url = f"http://127.0.0.1:{proxy.port}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def stop(self) -> None:
        """Let nobody reach it."""
        self._proxy.refuse()
        self._proxy.cut()

    def start(self) -> None:
        """Let it be reached again."""
        self._proxy.heal()

    def restart(self) -> None:
        """Break all connections, and let new ones be made after a moment."""
        self.stop()
        time.sleep(_AWAY)
        self.start()
