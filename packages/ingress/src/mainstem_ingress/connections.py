"""Streams of bytes over connections, as a receiver takes them: one thread, many connections."""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from mainstem import HostTLSOptions, PermanentError, TransientError, failpoint

from mainstem_ingress.datagrams import remove_stale
from mainstem_ingress.framing import Frame, Framer, FramingError
from mainstem_ingress.messages import Message
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.receiver import Receiver
from mainstem_ingress.streams import Place, StreamOptions

#: How much one connection is read at a time, and how often in a row, so that others have their turn.
_READ, _TURNS = 256 * 1024, 4
#: For how long nobody is let in where the system has no room for them, in seconds.
_FULL = 1.0
#: How many bytes of messages that are not whole all connections may have sent.
_HELD = 256 * 2**20
_made: Any = partial(tuple.__new__, Message)
_REST = (None, None, None)


class _Connection:
    """One connection, and what of a message has come."""

    def __init__(self, made: socket.socket, name: str, framer: Framer) -> None:
        self.socket, self.framer = made, framer
        self.name = name.encode()
        #: Whether the handshake of TLS is not done yet.
        self.greeting = False
        #: Until when that may last, or something has to come.
        self.until = inf


class StreamReceiver(Receiver):
    """Takes what comes over connections; who sends waits while there is no room.

    Args:
        stream: who connects to whom, and where messages end; when left out, the options say it.
    """

    options: IngressOptions
    gives_again = False

    def __init__(
        self, options: Any, number: int, node: str, stream: StreamOptions | None = None
    ) -> None:
        super().__init__(options, number, node)
        self._stream: StreamOptions = stream if stream is not None else options
        self._origin = self._stream.listen or self._stream.connect or ""
        self._begin()

    def _begin(self) -> None:
        self._selector: selectors.BaseSelector | None = None
        self._listening: socket.socket | None = None
        self._tls: ssl.SSLContext | None = None
        self._open: dict[socket.socket, _Connection] = {}
        self._paused = False
        self._ended = self._trouble = ""
        self._full_until = 0.0
        #: How many bytes may be read until messages are given on, as they are stored together.
        self._room = 0

    def connect(self, cursor: str | None) -> None:
        self._begin()
        stream = self._stream
        self._selector = selectors.DefaultSelector()
        if stream.connect is not None:
            seconds = stream.connect_timeout.total_seconds()
            made = connected(stream.place, stream.tls, seconds)
            made.setblocking(False)
            _keep_alive(made)
            self._add(_Connection(made, stream.connect, self._framer()))
        else:
            self._tls = self._context()
            self._listening = self._listen()
            self._selector.register(self._listening, selectors.EVENT_READ, None)
        failpoint("socket.after-connect")

    def _framer(self) -> Framer:
        return Framer(self._stream, self.options.max_message)

    def _context(self) -> ssl.SSLContext | None:
        told = self._stream.certificates
        if told is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(told.certificate, told.key, lambda: "")
            if told.client_ca is not None:
                context.load_verify_locations(told.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:
            raise PermanentError(f"certificates: {error}") from None
        return context

    def _listen(self) -> socket.socket:
        place = self._stream.place
        made = socket.socket(place.family, socket.SOCK_STREAM)
        try:
            if place.path:
                remove_stale(Path(place.path), socket.SOCK_STREAM)
            else:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if self.options.receivers > 1:
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.bind(place.address)
            made.listen(128)
            made.setblocking(False)
        except OSError as error:
            made.close()
            # Whoever has the port may be about to end.
            kind = PermanentError if isinstance(error, PermissionError) else TransientError
            raise kind(f"can't listen at {self._origin}: {error.strerror or error}") from None
        return made

    def _add(self, connection: _Connection) -> None:
        assert self._selector is not None  # noqa: S101
        if not connection.greeting:
            connection.until = self._silent_until()
        self._open[connection.socket] = connection
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    # -- taking -----------------------------------------------------------------------------------

    def take(self, seconds: float) -> Iterable[Message]:
        assert self._selector is not None  # noqa: S101
        if self._paused:
            time.sleep(seconds)
            return []
        if self._ended and not self._open:
            raise TransientError(self._ended)
        self._look()
        pending = any(isinstance(each, ssl.SSLSocket) and each.pending() for each in self._open)
        found: list[Message] = []
        ready = {key.fileobj for key, _ in self._selector.select(0 if pending else seconds)}
        self._room = self.options.segment_bytes
        now = time.monotonic()
        for connection in list(self._open.values()):
            made = connection.socket
            if made in ready or (isinstance(made, ssl.SSLSocket) and made.pending()):
                if self._is_full(found):  # they are the first the next time
                    break
                self._open[made] = self._open.pop(made)
                self._read(connection, found)
            elif now > connection.until:
                self._end(connection, found, "nothing has come for `idle_timeout`")
        self._bound(found)
        if self._listening in ready:
            self._accept()
        failpoint("socket.after-take")
        return found

    def _is_full(self, found: list[Message]) -> bool:
        return self._room <= 0 or len(found) >= self.options.segment_rows

    def _bound(self, found: list[Message]) -> None:
        """End the connections that have sent the most of what is no message yet, where it is too much.

        Else whoever may connect could have all memory, with messages that never end.
        """
        most = max(_HELD, 4 * self.options.max_message)
        held = sum(connection.framer.held for connection in self._open.values())
        while held > most:
            worst = max(self._open.values(), key=lambda each: each.framer.held)
            held -= worst.framer.held
            why = f"messages that are not whole have more than {most:,} bytes together"
            found.append(self._refused(worst, Frame(b"", f"the connection is ended: {why}")))
            self._end(worst, found, why)

    def _look(self) -> None:
        """Look at who waits to be let in only as long as there is room."""
        assert self._selector is not None  # noqa: S101
        made = self._listening
        if made is None:
            return
        room = len(self._open) < self._stream.connections and time.monotonic() > self._full_until
        known = made in self._selector.get_map()
        if room and not known:
            self._selector.register(made, selectors.EVENT_READ, None)
        elif known and not room:
            self._selector.unregister(made)

    def _accept(self) -> None:
        assert self._listening is not None  # noqa: S101
        try:
            while len(self._open) < self._stream.connections:
                made, sender = self._listening.accept()
                try:
                    self._let_in(made, _name(sender))
                except OSError:  # gone again
                    made.close()
        except BlockingIOError:  # nobody more
            self._trouble = ""
        except OSError as error:  # no descriptor for them, such as
            self._trouble = f"nobody is let in: {error.strerror or error}"
            self._full_until = time.monotonic() + _FULL

    def _let_in(self, made: socket.socket, name: str) -> None:
        made.setblocking(False)
        _keep_alive(made)
        connection = _Connection(made, name, self._framer())
        if self._tls is not None:
            made = self._tls.wrap_socket(made, server_side=True, do_handshake_on_connect=False)
            connection.socket, connection.greeting = made, True
            connection.until = time.monotonic() + self._stream.connect_timeout.total_seconds()
        self._add(connection)

    def _silent_until(self) -> float:
        """Return until when a connection over which something has come now may be silent."""
        idle = self._stream.idle_timeout
        return inf if idle is None else time.monotonic() + idle.total_seconds()

    def _read(self, connection: _Connection, found: list[Message]) -> None:
        """Read what has come over a connection, as far as it is its turn."""
        made = connection.socket
        try:
            if connection.greeting and isinstance(made, ssl.SSLSocket):
                made.do_handshake()
                connection.greeting = False
                connection.until = self._silent_until()
            for _ in range(_TURNS):
                data = made.recv(_READ)
                if not data:
                    self._end(connection, found, "the other side has ended the connection")
                    return
                self._room -= len(data)
                connection.until = self._silent_until()
                self._give(connection, connection.framer.feed(data), found)
                if self._is_full(found):
                    return
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except FramingError as error:
            self._give(connection, error.frames, found)
            found.append(self._refused(connection, Frame(b"", f"the connection is ended: {error}")))
            self._end(connection, found, str(error))
        except OSError as error:
            self._end(connection, found, error.strerror or str(error))

    def _give(self, connection: _Connection, frames: list[Frame], found: list[Message]) -> None:
        name, origin, now = connection.name, self._origin, time.time_ns() // 1000
        found += [_made((f.data, name, None, now, origin, *_REST, f.refused, ())) for f in frames]

    def _refused(self, connection: _Connection, frame: Frame) -> Message:
        return Message(frame.data, connection.name, origin=self._origin, refused=frame.refused)

    def _end(self, connection: _Connection, found: list[Message], why: str) -> None:
        """Let go of a connection, with what was left of a message."""
        assert self._selector is not None  # noqa: S101
        with suppress(FramingError):
            if (rest := connection.framer.last(whole=False)) is not None:
                found.append(self._refused(connection, rest))
        self._selector.unregister(connection.socket)
        connection.socket.close()
        del self._open[connection.socket]
        if self._listening is None:
            self._ended = why or "the connection has ended"

    def acknowledge(self, messages: Sequence[Message]) -> None:
        pass  # nobody waits for it

    def pause(self) -> None:
        # What is not read fills the systems' buffers, and then who sends waits.
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        for connection in self._open.values():
            connection.socket.close()
        if self._listening is not None:
            self._listening.close()
            if path := self._stream.place.path:
                Path(path).unlink(missing_ok=True)
        if self._selector is not None:
            self._selector.close()
        self._begin()

    def facts(self) -> dict[str, Any]:
        told = {"trouble": self._trouble} if self._trouble else {}
        return {"server": self._origin, "connections": len(self._open), **told}


def _keep_alive(made: socket.socket) -> None:
    """Let the system notice that the other side is gone without a word."""
    if made.family != socket.AF_UNIX:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20)


def _name(sender: Any) -> str:
    """Return what a sender is known by; one of a Unix socket has no name."""
    if not isinstance(sender, tuple):
        return ""
    host, port = sender[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def connected(place: Place, tls: HostTLSOptions | None, seconds: float) -> socket.socket:
    """Return a socket that is connected, with TLS where it is asked for.

    Raises:
        TransientError: nobody is there now.
        PermanentError: the other side's certificate is none of theirs, or a file can't be read.
    """
    try:
        context = tls.context() if tls is not None else None
    except OSError as error:
        raise PermanentError(str(error)) from None
    try:
        if place.path:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.settimeout(seconds)
            try:
                made.connect(place.path)
            except OSError:
                made.close()
                raise
        else:
            made = socket.create_connection((place.host, place.port), seconds)
        if context is not None:
            made = context.wrap_socket(made, server_hostname=place.host or "localhost")
    except ssl.SSLCertVerificationError as error:
        raise PermanentError(f"the other side's certificate: {error.verify_message}") from None
    except OSError as error:
        raise TransientError(error.strerror or str(error)) from None
    return made
