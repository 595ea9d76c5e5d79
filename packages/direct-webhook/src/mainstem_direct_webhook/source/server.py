"""The HTTP server, uvicorn on a socket of ours, and the process that it runs in."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import pickle
import resource
import signal
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from typing import Any

import uvicorn
from mainstem import PermanentError, TransientError

from mainstem_direct_webhook.source.application import Application
from mainstem_direct_webhook.source.handoff import TASK_LENGTH, Handover, framed
from mainstem_direct_webhook.source.options import Limits, WebhookSourceOptions
from mainstem_direct_webhook.source.protocol import protocol_of, reap, server_context

#: How long requests that are not whole may take when the server ends, in seconds.
_FAREWELL = 2
_BACKLOG = 2048
_TELL_EVERY = 1.0
#: How long nobody is let in when a connection could not be accepted, in seconds.
_AGAIN = 0.2
#: Failures to listen that pass with time.
_TRANSIENT = (errno.EADDRINUSE, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Uvicorn(uvicorn.Server):
    """A server that counts connections from their first packet, and lets no handshake last.

    Args:
        listening: a socket that listens and does not block.
    """

    def __init__(self, config: uvicorn.Config, listening: socket.socket, limits: Limits) -> None:
        super().__init__(config)
        self._listening, self._limits = listening, limits
        self._opening: dict[asyncio.Task[None], Any] = {}
        self._accepting: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals as they are: whoever started the process ends it."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        self.servers = []
        self._accepting = asyncio.create_task(self._accept())
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and wait for the answers in flight."""
        for task in [*self._opening, *([self._accepting] if self._accepting else [])]:
            task.cancel()
        self._listening.close()
        await super().shutdown(sockets)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                made, peer = await loop.sock_accept(self._listening)
            except OSError:  # no file is free, or the client has gone
                await asyncio.sleep(_AGAIN)
                continue
            if self._open_ones() >= self._limits.connections and not self._room_for(str(peer[0])):
                made.close()
                continue
            protocol: Any = self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state={}
            )
            task = loop.create_task(self._open(made, protocol))
            self._opening[task] = protocol
            task.add_done_callback(self._opening.pop)

    def _room_for(self, address: str) -> bool:
        """Make room for a client where all connections are taken; whether there is some.

        An address that has more than its share loses the connection that has kept us waiting longest.
        """
        known: list[Any] = list(self.server_state.connections)
        counts = Counter(each.address for each in known)
        most, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
        waiting = [each for each in known if each.address == most and each.waits]
        if not waiting or count <= counts[address] + 1:
            return False
        min(waiting, key=lambda each: each.deadline).transport.abort()
        return True

    def _open_ones(self) -> int:
        """Return how many connections there are; one is known to uvicorn before its task is done."""
        known = self.server_state.connections
        return len(known) + sum(protocol not in known for protocol in self._opening.values())

    async def _open(self, made: socket.socket, protocol: asyncio.Protocol) -> None:
        ssl = self.config.ssl
        limit = self._limits.head_time.total_seconds() if ssl else None
        with suppress(OSError):  # as it is when a handshake fails
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, made, ssl=ssl, ssl_handshake_timeout=limit
            )


class Server:
    """Listens from the beginning, and serves an application until told to end.

    Raises:
        PermanentError: the address or a certificate can't be used.
        TransientError: the address is in use.
    """

    def __init__(self, options: WebhookSourceOptions) -> None:
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what matters, the answers tell
        self._options = options
        self._context = _context(options)
        self._protocol = protocol_of(options.limits)
        self._socket = _listening(options)
        self._server: uvicorn.Server | None = None

    async def serve(self, application: Application, handover: Handover) -> None:
        """Serve until told to end, and tell the other end of the pipe so when it begins."""
        options = self._options
        config = uvicorn.Config(
            application,
            http=self._protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(options.trusted_proxies),
            forwarded_allow_ips=_networks(options.trusted_proxies),
            timeout_keep_alive=max(1, round(options.limits.idle_time.total_seconds())),
            timeout_graceful_shutdown=_FAREWELL,
        )
        config.load()
        config.ssl = self._context
        self._server = _Uvicorn(config, self._socket, options.limits)
        connections: Any = self._server.server_state.connections
        application.connections = connections
        others = [
            asyncio.create_task(reap(connections, self._protocol)),
            asyncio.create_task(_tell(application, handover)),
        ]
        handover.tell("serving")  # who comes before we accept waits in the kernel
        try:
            await self._server.serve()
        finally:
            for task in others:
                task.cancel()
            for connection in list(connections):
                connection.transport.abort()
            await asyncio.sleep(0)  # lets those who were cut off learn it
            handover.answered(application.answers)

    def end(self) -> None:
        """Take no more connections, and end when those that are there have had their answers."""
        if self._server is not None:
            self._server.should_exit = True


async def _tell(application: Application, handover: Handover) -> None:
    while True:
        await asyncio.sleep(_TELL_EVERY)
        handover.answered(application.answers)


def _networks(trusted: list[str]) -> list[str]:
    """Return networks, those of IPv4 also as a socket of IPv6 shows their addresses."""
    found = list(trusted)
    for each in trusted:
        network = ip_network(each)
        if network.version == 4:
            found.append(f"::ffff:{network.network_address}/{96 + network.prefixlen}")
    return found


def _listening(options: WebhookSourceOptions) -> socket.socket:
    """Return a socket that listens."""
    where = f"{options.host}:{options.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise PermanentError(f"can't listen on {where}: {error.strerror or error}") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.receivers > 1:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)
        made.listen(_BACKLOG)
        made.setblocking(False)
    except OSError as error:
        made.close()
        told = f"can't listen on {where}: {error.strerror}"
        raise (
            TransientError(told) if error.errno in _TRANSIENT else PermanentError(told)
        ) from error
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
        raise PermanentError(
            f"can't use the files of `tls` ({files}): {error.strerror or error}"
        ) from error


#: After how many new objects Python looks for garbage: messages that wait to be stored are none.
_GARBAGE = 50_000


async def serve(options: WebhookSourceOptions, server: Server, pipe: socket.socket) -> None:
    """Serve until told to end."""
    application = Application(options)

    def accept(accepting: bool) -> None:
        application.accepting = accepting

    def close() -> None:
        application.close()
        server.end()

    handover = Handover(options.segment_bytes, options.segment_rows, accept, close)
    application.handover = handover
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: handover, sock=pipe)
    await server.serve(application, handover)


def main() -> None:
    """Run the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the receiver decides
    pipe = socket.socket(fileno=os.dup(0))
    with pipe.makefile("rb", buffering=0) as told:
        options = pickle.loads(_exactly(told, int.from_bytes(_exactly(told, TASK_LENGTH), "big")))  # noqa: S301  # from our parent
    try:
        server = Server(options)
    except (PermanentError, TransientError) as error:
        pipe.sendall(framed(("failed", isinstance(error, TransientError), str(error))))
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    asyncio.run(serve(options, server, pipe))


def _exactly(file: Any, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = file.read(count - len(found))
        if not piece:
            raise SystemExit(1)
        found += piece
    return found


if __name__ == "__main__":
    main()
