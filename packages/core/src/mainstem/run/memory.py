"""Freed memory goes back to the system.

glibc keeps what was freed in arenas, which threads share in turns. The driver has dozens of threads, and
came to hold more and more of it, though what was in use stayed the same.
"""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress

#: How often it is given back, in seconds; that takes some milliseconds.
_EVERY = 60.0


def give_back() -> None:
    """Give freed memory back, where the C library can: glibc, by `malloc_trim`."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class GivingBack:
    """Does so every minute."""

    def __init__(self) -> None:
        self._at = time.monotonic() + _EVERY

    def tick(self) -> None:
        """Give memory back if it is time."""
        if time.monotonic() >= self._at:
            give_back()
            self._at = time.monotonic() + _EVERY
