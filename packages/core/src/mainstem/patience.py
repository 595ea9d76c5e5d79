"""For what talks to a far side: how long to try again, and how long to wait before each try."""

from __future__ import annotations

import random
import time

#: The pause before the second try and the longest one, in seconds; each is twice the one before.
_FIRST, _LONGEST = 0.04, 5.0


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

    def left(self) -> float:
        """Return for how many seconds to try on; 0 or less when it is time to give up."""
        return self._since + self.seconds - time.monotonic()

    def pause(self) -> float:
        """Note that a try failed; return how many seconds to wait before the next one.

        The length is drawn, so that many who lost one server do not all come back at once.
        """
        longest = min(_LONGEST, _FIRST * 2.0 ** min(self.tries, 10))
        self.tries += 1
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  # jitter
