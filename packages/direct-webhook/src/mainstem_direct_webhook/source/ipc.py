"""How the process that serves and the one that stores talk: tuples, over a pair of sockets.

Both begin with a word. To the server go `take` (the messages of the next group are wanted), `stored` (how
many more requests are), `accept` (whether messages are taken) and `close`. From it come `serving` or
`failed` (whether that can pass, and why), `group` (the number of messages of each request, and the
messages) and `answers` (how many there were, by status).
"""

from __future__ import annotations

import marshal
import pickle
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from mainstem import TransientError

from mainstem_direct_webhook.source.options import WebhookSourceOptions

#: The bytes in which stands how long the task is.
TASK_LENGTH = 8
_LENGTH = struct.Struct(">I")
_PIECE = 2**18
_ENDED = "the server has ended"

Told = tuple[Any, ...]


def task_of(options: WebhookSourceOptions) -> bytes:
    """Return what the process that serves reads first. It holds secrets: only ever a pipe's content."""
    content = pickle.dumps(options)
    return len(content).to_bytes(TASK_LENGTH, "big") + content


def framed(told: Told) -> bytes:
    """Return what is sent: the length, and the tuple as `marshal` writes it."""
    content = marshal.dumps(told)
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Puts together what has come in pieces."""

    def __init__(self) -> None:
        self._held = bytearray()

    def add(self, piece: bytes) -> Iterator[Told]:
        """Give each tuple that is whole with this piece."""
        held = self._held
        held += piece
        while len(held) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(held)[0]
            if len(held) < end:
                return
            told: Told = marshal.loads(memoryview(held)[_LENGTH.size : end])  # noqa: S302  # our own process
            del held[:end]
            yield told


class Pipe:
    """The end of the process that stores, which waits; `TransientError` when the other one is closed."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._frames = Frames()

    def send(self, *told: Any) -> None:
        """Send a tuple."""
        self.send_bytes(framed(told))

    def send_bytes(self, content: bytes) -> None:
        """Send what is no tuple."""
        self._socket.settimeout(None)
        try:
            self._socket.sendall(content)
        except OSError as error:
            raise TransientError(_ENDED) from error

    def receive(self, seconds: float) -> list[Told]:
        """Return what has come, waiting for the first for so long at most."""
        until = time.monotonic() + seconds
        found: list[Told] = []
        while not found:
            self._socket.settimeout(max(until - time.monotonic(), 0.0))
            try:
                piece = self._socket.recv(_PIECE)
            except (TimeoutError, BlockingIOError):
                return []
            except OSError as error:
                raise TransientError(_ENDED) from error
            if not piece:
                raise TransientError(_ENDED)
            found.extend(self._frames.add(piece))
        return found

    def close(self) -> None:
        """Close this end: the server ends too."""
        self._socket.close()
