"""Where the messages of a subscription wait, as they came."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple


class Raw(NamedTuple):
    """A message as it came. `headers` are the protocol's own lines, None where there are none."""

    subject: bytes
    reply: bytes
    data: bytes
    headers: bytes | None

    @property
    def is_status(self) -> bool:
        """Whether it is what the server says of a pull.

        A message of the stream has no status, unless a server keeps one that its publisher gave it, and
        always a reply, by which it is acknowledged.
        """
        return self.headers is not None and self.headers[8:9] == b" " and not self.reply


class Inbox:
    """Messages of one subscription, kept until they are taken; past the limits they are dropped.

    nats-py's own way to a message costs some ten times what this does, and keeps one value of a header
    that comes several times.

    Args:
        rows: how many messages are kept at most.
        size: how many bytes of them are kept at most.
    """

    def __init__(self, rows: int, size: int) -> None:
        self._rows, self._size = rows, size
        self._kept: list[Raw] = []
        self._bytes = 0
        self._came = asyncio.Event()
        self.sid = 0
        #: How many messages were dropped, and how many bytes of data they had.
        self.dropped = self.dropped_bytes = 0

    def put(self, message: Raw) -> None:
        """Keep a message, or drop it when there are too many; called in the loop's thread."""
        size = len(message.data)
        if len(self._kept) >= self._rows or self._bytes + size > self._size:
            self.dropped += 1
            self.dropped_bytes += size
            return
        self._kept.append(message)
        self._bytes += size
        if len(self._kept) == 1:
            self._came.set()

    async def take(self, seconds: float) -> list[Raw]:
        """Return what has come, waiting so long at most for the first."""
        if not self._kept and seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), seconds)
        taken, self._kept, self._bytes = self._kept, [], 0
        self._came.clear()
        return taken

    def end(self) -> None:
        """Let nobody wait for messages any more."""
        self._came.set()
