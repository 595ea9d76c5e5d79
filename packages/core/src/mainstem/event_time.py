"""Spark's times as Python's, which end sooner: beyond them the last and the first one stand for all."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_BEGINNING = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
#: In whole milliseconds, as Spark's watermarks are.
LAST = datetime.max.replace(microsecond=999000, tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)
#: A year of five digits or more, as Java writes it.
_BEYOND = re.compile(r"\+?\d{5,}-")


def from_micros(micros: int) -> datetime:
    """Return the time so many microseconds after the beginning of 1970."""
    known = max(_micros(FIRST - _BEGINNING), min(micros, _micros(LAST - _BEGINNING)))
    return _BEGINNING + timedelta(microseconds=known)


def from_millis(millis: int) -> datetime:
    """Return the time so many milliseconds after the beginning of 1970."""
    return from_micros(millis * 1000)


def from_text(text: str) -> datetime:
    """Return a time that Spark has written by ISO 8601."""
    return LAST if _BEYOND.match(text) else datetime.fromisoformat(text)


def moved(at: datetime, by: timedelta) -> datetime:
    """Return a time later than another one; earlier where `by` is negative."""
    return from_micros(_micros(at - _BEGINNING + by))


def in_millis(at: datetime) -> datetime:
    """Return the millisecond that a time is in: Spark's watermarks have no more."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _micros(length: timedelta) -> int:
    return length // _MICROSECOND
