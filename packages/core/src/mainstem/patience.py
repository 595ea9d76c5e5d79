"""For what talks to an external system: how long to retry, and how long to wait before each retry."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from mainstem.errors import TransientError

T = TypeVar("T")


def pause_after(tries: int, first: float = 0.04, longest: float = 5.0) -> float:
    """Return how many seconds to wait after so many failed tries in a row, at least one.

    The length doubles with each, and is drawn between half of that and all, so that many who lost one
    server do not all come back at once.

    Args:
        tries: how many have failed.
        first: the longest wait after the first, in seconds.
        longest: the longest of all.
    """
    whole = min(longest, first * 2.0 ** min(tries - 1, 30))
    return whole * random.uniform(0.5, 1.0)  # noqa: S311  # jitter


class Patience:
    """Bears failed tries until nothing has gone forward for some time.

    Args:
        seconds: for how long.

    Attributes:
        seconds: the same.
        tries: how many tries have failed since something went forward.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.progress()

    def progress(self) -> None:
        """Begin to count anew: something went forward, or nothing was waited for until now."""
        self.tries = 0
        self._since = time.monotonic()

    def skip(self, seconds: float) -> None:
        """Leave out so many seconds that have passed: nothing was waited for in them."""
        self._since = min(self._since + seconds, time.monotonic())

    def left(self) -> float:
        """Return for how many seconds to try on; 0 or less when it is time to give up."""
        return self._since + self.seconds - time.monotonic()

    def pause(self) -> float:
        """Note that a try failed; return how many seconds to wait before the next one."""
        self.tries += 1
        return pause_after(self.tries)


def retry(
    work: Callable[[int], T],
    give_up: float,
    between: Callable[[TransientError], None] = lambda _: None,
) -> T:
    """Do work, and again as long as it raises a `TransientError`, with growing pauses.

    Args:
        work: is given how many tries have failed, from 0.
        give_up: after how many seconds the error is raised.
        between: called with the error before each pause: to close what is broken, or to log.

    Raises:
        TransientError: the last one.
    """
    patience = Patience(give_up)
    while True:
        try:
            return work(patience.tries)
        except TransientError as error:
            pause = patience.pause()
            if pause > patience.left():
                raise
            between(error)
        time.sleep(pause)
