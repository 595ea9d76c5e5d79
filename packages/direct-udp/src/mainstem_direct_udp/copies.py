"""Numbered messages of several feeds: the first copy counts, and a gap is what none has in time."""

from __future__ import annotations

import json
import time
from collections import OrderedDict

from mainstem_ingress.sequences import Gap

#: A number that is so little below the first one was sent before it.
_SHORTLY = 1000
#: Of a wider gap nothing is waited for.
_WIDEST = 1_000_000


class _Count:
    """The numbers of one who counts."""

    def __init__(self, highest: int) -> None:
        self.highest = highest
        #: Until when a number below is a copy of one that was stored before a restart.
        self.stored_until = float("-inf")
        #: The number that it began with; one that was sent shortly before may come after it.
        self.begun = highest + 1
        #: When each number of late was first seen, in order.
        self.seen: OrderedDict[int, float] = OrderedDict()
        #: What is missing: first, last, and since when.
        self.missing: list[tuple[int, int, float]] = []


class Copies:
    """Which messages are copies of others, and what is missing.

    Args:
        within: for how many seconds a copy is known, and a missing number waited for.
        remember: how many counts; the one that was silent for longest is forgotten.
        cursor: what `encoded` gave for the last message that was stored; None for a beginning.
    """

    def __init__(self, within: float, remember: int, cursor: str | None = None) -> None:
        self._within, self._most = within, remember
        self._counts: OrderedDict[bytes, _Count] = OrderedDict()
        now = time.monotonic()
        for name, (highest, *gaps) in json.loads(cursor or "{}").items():
            count = self._counts[name.encode("latin-1")] = _Count(highest)
            count.missing = [(f, g, now) for f, g in zip(gaps[::2], gaps[1::2], strict=True)]
            count.begun, count.stored_until = 0, now + within

    def first(self, name: bytes, number: int, now: float) -> bool:
        """Note a message's number; return whether it is the first copy.

        A number that is neither a copy of late, nor missing, nor above all others is a new beginning.
        """
        count = self._counts.pop(name, None) or _Count(number - 1)
        self._counts[name] = count
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        if number in count.seen:
            return False
        if number > count.highest:
            if number > count.highest + 1:
                count.missing.append((count.highest + 1, number - 1, now))
            count.highest = number
        elif not self._fill(count, number) and not count.begun - _SHORTLY < number < count.begun:
            if now <= count.stored_until and number > count.highest - _SHORTLY:
                return False
            count.highest, count.begun, count.missing = number, number, []
            count.seen.clear()
        count.seen[number] = now
        while now - next(iter(count.seen.values())) > self._within:
            count.seen.popitem(last=False)
        return True

    def _fill(self, count: _Count, number: int) -> bool:
        for at, (first, last, since) in enumerate(count.missing):
            if first <= number <= last:
                left = [(first, number - 1, since), (number + 1, last, since)]
                count.missing[at : at + 1] = [part for part in left if part[0] <= part[1]]
                return True
        return False

    def due(self, now: float) -> list[Gap]:
        """Return what has been missing for too long, and is waited for no more."""
        found = []
        for name, count in self._counts.items():
            over = [
                part
                for part in count.missing
                if now - part[2] > self._within or part[1] - part[0] >= _WIDEST
            ]
            if over:
                count.missing = [part for part in count.missing if part not in over]
                text = name.decode(errors="backslashreplace")
                found += [Gap(first, last, text) for first, last, _ in over]
        return found

    @property
    def waiting(self) -> bool:
        """Whether something is missing that may still come."""
        return any(count.missing for count in self._counts.values())

    def encoded(self) -> str:
        """Return what a new one goes on from."""
        told = {}
        for name, count in self._counts.items():
            gaps = [n for first, last, _ in count.missing for n in (first, last)]
            told[name.decode("latin-1")] = [count.highest, *gaps]
        return json.dumps(told)
