"""Where requests leave their messages for the process that stores them."""

from __future__ import annotations

import asyncio
import marshal
import os
import pickle
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from mainstem import TransientError
from mainstem_ingress import Message

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


#: How long to wait for more once something has come, in seconds: a segment for each request would be too
#: many files.
_GATHER = 0.005

#: It is over when one in so many connections waits: while those are stored, the others can come.
_SHARE = 2

Waiting = asyncio.Future[bool]


class Handover(asyncio.Protocol):
    """The server's end of the pipe. It sends a group when one is wanted; what bounds it is outside.

    Args:
        most_bytes: about so many bytes are sent at once,
        most_rows: and so many messages.
        accept: is told whether messages are taken.
        close: is told to take no more, and end.
    """

    def __init__(
        self,
        most_bytes: int,
        most_rows: int,
        accept: Callable[[bool], None],
        close: Callable[[], None],
    ) -> None:
        self._most_bytes, self._most_rows = most_bytes, most_rows
        self._accept, self._close = accept, close
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._pipe: Any = None
        self._wanted = False
        self._units: deque[tuple[list[Message], int, Waiting]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        #: Those whose messages were sent, in that order.
        self._sent: deque[Waiting] = deque()
        self._told: Counter[int] = Counter()

    def put(self, messages: list[Message], size: int, senders: int, waiting: Waiting) -> None:
        """Leave a request's messages, which stay together.

        Args:
            size: in bytes.
            senders: how many connections there are. Each sends nothing more before its answer.
            waiting: is given True when the messages are stored.
        """
        self._units.append((messages, size, waiting))
        if _SHARE * len(self._units) >= senders:
            self._send()
        elif self._timer is None:
            self._timer = self._loop.call_later(_GATHER, self._send)

    def answered(self, answers: Counter[int]) -> None:
        """Tell how many requests were answered, by status, if that is news."""
        if answers != self._told:
            self._told = Counter(answers)
            self.tell("answers", dict(answers))

    def tell(self, *told: Any) -> None:
        """Send a tuple to the process that stores."""
        self._pipe.write(framed(told))

    # -- called by the loop ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = transport

    def connection_lost(self, exc: Exception | None) -> None:
        # Who stores is gone. Whether their messages are stored, those who wait can't be told.
        os._exit(1)

    def data_received(self, data: bytes) -> None:
        for told in self._frames.add(data):
            self._do(told)

    def _do(self, told: Told) -> None:
        word, *arguments = told
        if word == "take":
            self._wanted = True
            if self._timer is None and self._units:  # the time to gather more is over
                self._send()
        elif word == "stored":
            for _ in range(arguments[0]):
                waiting = self._sent.popleft()
                if not waiting.done():
                    waiting.set_result(True)
        elif word == "accept":
            self._accept(arguments[0])
        else:
            self._close()

    def _send(self) -> None:
        """Send what is there, if it is wanted; what is more than one group goes with the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._wanted or not self._units:
            return
        self._wanted = False
        lengths: list[int] = []
        rows: list[tuple[Any, ...]] = []
        left = self._most_bytes
        while self._units and left > 0 and len(rows) < self._most_rows:
            messages, size, waiting = self._units.popleft()
            rows += map(tuple, messages)
            lengths.append(len(messages))
            left -= size
            self._sent.append(waiting)
        self.tell("group", lengths, rows)
