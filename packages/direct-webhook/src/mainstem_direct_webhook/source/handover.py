"""Where requests leave their messages, and the thread that stores finds them."""

from __future__ import annotations

import threading
from collections import deque

from mainstem_ingress import Message

#: How long to wait for more once something has come, in seconds: a segment for each request would be too
#: many files.
_GATHER = 0.005

#: It is over when one in so many connections waits: while those are stored, the others can come.
_SHARE = 2


class Handover:
    """Messages on their way from the loop's thread to the one that stores; what bounds it is outside.

    Args:
        most_bytes: about so many bytes are given at once,
        most_rows: and so many messages.
    """

    def __init__(self, most_bytes: int, most_rows: int) -> None:
        self._most_bytes, self._most_rows = most_bytes, most_rows
        self._units: deque[tuple[list[Message], int]] = deque()
        self._there = threading.Event()
        self._urgent = threading.Event()

    def put(self, messages: list[Message], size: int, senders: int) -> None:
        """Leave a request's messages, which stay together; called in the loop's thread.

        Args:
            size: in bytes.
            senders: how many connections there are. Each sends nothing more before its answer.
        """
        self._units.append((messages, size))
        if not self._there.is_set():
            self._there.set()
        if _SHARE * len(self._units) >= senders:
            self._urgent.set()

    def take(self, seconds: float) -> list[Message]:
        """Return what is there, waiting for the first for so long at most."""
        if seconds > 0 and self._there.wait(seconds):
            self._urgent.wait(min(seconds, _GATHER))
        # Cleared first: what comes from here on sets them again.
        self._there.clear()
        self._urgent.clear()
        found: list[Message] = []
        size = 0
        while self._units and size < self._most_bytes and len(found) < self._most_rows:
            messages, each = self._units.popleft()
            found += messages
            size += each
        if self._units:
            self._there.set()
            self._urgent.set()
        return found
