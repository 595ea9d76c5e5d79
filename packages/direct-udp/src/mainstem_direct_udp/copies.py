"""Numbered messages of several feeds: the first copy counts, and a gap is what none has in time."""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections import OrderedDict
from typing import Any, NamedTuple

from mainstem_ingress.sequences import Gap

#: A number that is so little below the first one was sent before it.
_SHORTLY = 1000
#: Of a wider gap nothing is waited for, nor of the oldest beyond so many.
_WIDEST, _MOST_GAPS = 1_000_000, 1000


class _Missing(NamedTuple):
    """Numbers that did not come, and since when."""

    first: int
    last: int
    since: float


class _Count:
    """The numbers of one who counts.

    Args:
        highest: the number that counts as the highest that has come.
        former: how the same one counted before it began again, which a feed that is behind goes on with.
    """

    def __init__(self, highest: int, former: _Count | None = None) -> None:
        self.highest = highest
        self.former = former
        #: How far that one was then: if it goes on, and this one does not, there was no new beginning.
        self.before = former.highest if former is not None else 0
        #: Until when a number below is a copy of one that was stored before a restart.
        self.stored_until = float("-inf")
        #: The number that it began with; one that was sent shortly before may come after it.
        self.begun = highest + 1
        #: When each number of late was first seen, in order.
        self.seen: OrderedDict[int, float] = OrderedDict()
        #: When it began.
        self.since = float("-inf")
        #: What is missing, in the order of numbers and of times.
        self.missing: list[_Missing] = []

    def take(self, number: int, now: float, within: float) -> bool | None:
        """Note a number; return whether it is the first copy, None where it is of another count."""
        if number in self.seen:
            return False
        if number > self.highest:
            if number > self.highest + 1:
                self.missing.append(_Missing(self.highest + 1, number - 1, now))
            self.highest = number
        elif not self._fill(number) and not self.begun - _SHORTLY < number < self.begun:
            stored = now <= self.stored_until and number > self.highest - _SHORTLY
            return False if stored else None
        self.see(number, now, within)
        return True

    def see(self, number: int, now: float, within: float) -> None:
        """Remember a number for so long as a copy of it may come."""
        self.seen[number] = now
        while now - next(iter(self.seen.values())) > within:
            self.seen.popitem(last=False)

    def _fill(self, number: int) -> bool:
        at = bisect_right(self.missing, number, key=lambda part: part.first) - 1
        if at < 0 or number > self.missing[at].last:
            return False
        first, last, since = self.missing[at]
        left = [_Missing(first, number - 1, since), _Missing(number + 1, last, since)]
        self.missing[at : at + 1] = [part for part in left if part.first <= part.last]
        return True

    def due(self, now: float, within: float) -> list[_Missing]:
        """Return what is waited for no more, and forget it."""
        over, beyond = 0, len(self.missing) - _MOST_GAPS
        while over < len(self.missing) and (
            over < beyond or now - self.missing[over].since > within
        ):
            over += 1
        found, left = self.missing[:over], self.missing[over:]
        found += [part for part in left if part.last - part.first >= _WIDEST]
        self.missing = [part for part in left if part.last - part.first < _WIDEST]
        return found

    def encoded(self) -> list[Any]:
        """Return its highest number, what is missing, and the same of the former count."""
        gaps = [number for part in self.missing for number in (part.first, part.last)]
        return [self.highest, *gaps, *([self.former.encoded()] if self.former else [])]

    @classmethod
    def decoded(cls, told: list[Any], now: float, within: float) -> _Count:
        """Return what `encoded` told of."""
        highest, *gaps = told
        former = (
            cls.decoded(gaps.pop(), now, within) if gaps and isinstance(gaps[-1], list) else None
        )
        made = cls(highest, former)
        made.missing = [_Missing(f, g, now) for f, g in zip(gaps[::2], gaps[1::2], strict=True)]
        made.begun, made.stored_until, made.since = 0, now + within, now
        return made


class Copies:
    """Which messages are copies of others, and what is missing.

    Args:
        within: for how many seconds a copy is known, and a missing number waited for.
        remember: how many counts; the one that was silent for longest is forgotten.
        cursor: what `encoded` gave for the last message that was stored; None for a beginning.
    """

    def __init__(self, within: float, remember: int, cursor: str | None = None) -> None:
        self._within, self._most = within, remember
        now = time.monotonic()
        self._counts = OrderedDict(
            (name.encode("latin-1"), _Count.decoded(told, now, within))
            for name, told in json.loads(cursor or "{}").items()
        )
        #: What nobody waits for, and was not returned yet.
        self._gone: list[Gap] = []

    def first(self, name: bytes, number: int, now: float) -> bool:
        """Note a message's number; return whether it is the first copy.

        A number that is neither a copy of late, nor missing, nor above all others is a new beginning. For
        a while the count before it goes on beside: a number is of that one whose highest is nearer.
        """
        count = self._counts.pop(name, None) or _Count(number - 1)
        self._counts[name] = count
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        count = self._settled(name, count, now)
        former = count.former
        if former is not None and abs(number - former.highest) < abs(number - count.highest):
            return bool(former.take(number, now, self._within))
        taken = count.take(number, now, self._within)
        if taken is None:
            self._leave(name, count)
            made = self._counts[name] = _Count(number, count)
            made.begun, made.since = number, now
            made.see(number, now, self._within)
        return taken is not False

    def _settled(self, name: bytes, count: _Count, now: float) -> _Count:
        """Return which count goes on, once it is time to let go of the one before."""
        former = count.former
        if former is None or now - count.since <= self._within:
            return count
        if count.highest == count.begun and former.highest > count.before:
            self._counts[name] = former  # a single number was late
            return former
        self._leave(name, count)
        return count

    def _leave(self, name: bytes, count: _Count) -> None:
        """Let go of the count before one."""
        if count.former is not None:
            self._gone += _gaps(name, count.former.missing)
            count.former = None

    def due(self, now: float) -> list[Gap]:
        """Return what has been missing for too long, and is waited for no more."""
        for name in list(self._counts):
            count = self._settled(name, self._counts[name], now)
            for each in (count.former, count):
                if each is not None and each.missing:
                    self._gone += _gaps(name, each.due(now, self._within))
        found, self._gone = self._gone, []
        return found

    @property
    def waiting(self) -> bool:
        """Whether something is missing that may still come."""
        counts = self._counts.values()
        return any(c.missing or (c.former is not None and c.former.missing) for c in counts)

    def encoded(self) -> str:
        """Return what a new one goes on from."""
        return json.dumps({n.decode("latin-1"): c.encoded() for n, c in self._counts.items()})


def _gaps(name: bytes, parts: list[_Missing]) -> list[Gap]:
    text = name.decode(errors="backslashreplace")
    return [Gap(part.first, part.last, text) for part in parts]
