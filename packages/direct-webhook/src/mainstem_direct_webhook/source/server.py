"""The HTTP server of one receiver: uvicorn in a thread, with a loop of its own."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import uvicorn
from mainstem_ingress import Unmendable, Unreachable

from mainstem_direct_webhook.source.application import Application
from mainstem_direct_webhook.source.options import WebhookSourceOptions
from mainstem_direct_webhook.source.protocol import protocol_of, reap, server_context

#: How long requests that are not whole may take when the server ends, in seconds.
_FAREWELL = 2
_STARTS = _ENDS = 30.0
_BACKLOG = 2048
#: Failures to listen that pass with time.
_PASSING = (errno.EADDRINUSE, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server:
    """Serves an application until told to stop.

    Raises:
        Unmendable: the address or a certificate can't be used.
        Unreachable: the address is in use.
    """

    def __init__(self, options: WebhookSourceOptions, application: Application) -> None:
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what matters, the answers tell
        self._options = options
        self._application = application
        context = _context(options)
        self._socket = _listening(options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        config = uvicorn.Config(
            application,
            http=protocol_of(options.limits),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(options.trusted_proxies),
            forwarded_allow_ips=options.trusted_proxies,
            backlog=_BACKLOG,
            timeout_keep_alive=max(1, round(options.limits.idle_time.total_seconds())),
            timeout_graceful_shutdown=_FAREWELL,
        )
        config.load()
        config.ssl = context
        self._server = uvicorn.Server(config)
        application.connections = self._server.server_state.connections
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._work, name="webhook-server", daemon=True)
        self._thread.start()
        self._running.wait(_STARTS)
        if self._failure is not None or not self._running.is_set():
            self.close()
            raise Unreachable(f"the server does not start: {self._failure}")

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    def settle(self, requests: Iterable[asyncio.Future[bool]]) -> None:
        """Let requests be answered: their messages are stored."""
        self._call(self._application.settle, list(requests))

    def close(self) -> None:
        """Take no more requests, answer those that are there, and end; what waits gets 503."""
        self._call(self._application.close)
        self._server.should_exit = True
        self._thread.join(_ENDS)
        self._socket.close()

    def _call(self, task: Any, *arguments: Any) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(task, *arguments)

    def _work(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._running.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        connections: Any = self._server.server_state.connections
        reaper = asyncio.create_task(reap(connections, self._options.limits))
        self._loop.call_soon(self._running.set)
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            reaper.cancel()
            for connection in list(connections):
                connection.transport.abort()
            await asyncio.sleep(0)  # lets those who were cut off learn it


def _listening(options: WebhookSourceOptions) -> socket.socket:
    """Return a socket that is bound; uvicorn lets it listen."""
    where = f"{options.host}:{options.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Unmendable(f"can't listen on {where}: {error.strerror or error}") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.receivers > 1:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        told = f"can't listen on {where}: {error.strerror}"
        raise (Unreachable(told) if error.errno in _PASSING else Unmendable(told)) from error
    return made


def _context(options: WebhookSourceOptions) -> ssl.SSLContext | None:
    tls = options.tls
    if tls is None:
        return None
    try:
        return server_context(
            str(tls.certificate),
            None if tls.key is None else str(tls.key),
            None if tls.password is None else tls.password.get_secret_value(),
            None if tls.ca is None else str(tls.ca),
        )
    except OSError as error:
        files = ", ".join(str(f) for f in (tls.certificate, tls.key, tls.ca) if f is not None)
        raise Unmendable(
            f"can't use the files of `tls` ({files}): {error.strerror or error}"
        ) from error
