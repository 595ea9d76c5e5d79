"""What an endpoint's answers mean, and how long to wait after them."""

from __future__ import annotations

from collections.abc import Container
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum

from mainstem.patience import pause_after

#: Statuses that pass with time, beside 5xx.
_TRANSIENT = frozenset({408, 425, 429})
#: Statuses of 4xx that are about the request's address, its sender or its method, not its message.
_ENDPOINT = frozenset({401, 403, 404, 405, 407, 410, 421})
_FIRST_WAIT = 0.2


class Fate(Enum):
    """What becomes of a request after an answer."""

    DONE = "taken"
    AGAIN = "to be sent again"
    REFUSED = "refused for good"
    #: The endpoint is wrong, moved, or closed to us: so it is for all requests.
    ASTRAY = "no endpoint for these requests"


def fate(status: int, reject: Container[int] = ()) -> Fate:
    """Return what a status means.

    Args:
        status: of the final answer.
        reject: statuses that the user says are about a message.
    """
    if 200 <= status <= 299:
        return Fate.DONE
    if status in reject:
        return Fate.REFUSED
    if status in _TRANSIENT or status >= 500:
        return Fate.AGAIN
    if status < 400 or status in _ENDPOINT:
        return Fate.ASTRAY
    return Fate.REFUSED


def retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Return how many seconds a header `Retry-After` asks to wait; None if there is none, or nonsense.

    It is a number of seconds or a date (RFC 9110, section 10.2.3).
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


def pause(tries: int, asked: float | None, longest: float) -> float:
    """Return how many seconds to wait before the next try.

    Args:
        tries: how many there have been.
        asked: what the endpoint asked for; no less is waited, but for `longest`.
        longest: the most that is waited.
    """
    wait = pause_after(tries, _FIRST_WAIT, longest)
    if asked is not None:
        wait = max(asked + min(wait, 1.0), wait)
    return min(wait, longest)
