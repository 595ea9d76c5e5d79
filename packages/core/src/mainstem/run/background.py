"""Work that is done beside the runner whenever it is wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Beside(threading.Thread):
    """Does some work each time that it is wanted, not more often than it can.

    In one thread for as long as it lasts: what a thread has freed, the allocator keeps for threads that
    it gives the same memory, so many short ones come to hold more than one.

    Args:
        name: the thread's.
        work: raises nothing.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._news = threading.Event()
        self._wanted = self._over = False

    def want(self) -> None:
        """Let the work be done, once more if it is being done; returns at once."""
        self._wanted = True
        self._news.set()

    def close(self) -> None:
        """Let the thread end when it has done what was wanted; returns at once."""
        self._over = True
        self._news.set()

    def run(self) -> None:
        """Work until closed."""
        while True:
            self._news.wait()
            self._news.clear()
            over = self._over
            if self._wanted:
                self._wanted = False
                self._work()
            if over:
                return
