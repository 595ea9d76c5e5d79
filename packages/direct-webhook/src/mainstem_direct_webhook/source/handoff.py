"""Where requests leave their messages for the process that stores them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from mainstem_ingress import Message

from mainstem_direct_webhook.source.ipc import Frames, Told, framed

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
