"""Compares the rows that came out with those that were expected."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Row = Mapping[str, Any]


def differences(expected: Sequence[Row], found: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are missing and those that nobody expected; order says nothing."""
    matches = _Matches(expected, found)
    # Rows that say most come first, so that a vague one seldom takes another's match.
    order = sorted(range(len(expected)), key=lambda n: len(expected[n]), reverse=True)
    rest = [number for number in order if not matches.take(number)]
    missing = [expected[number] for number in rest if not matches.make_room(number)]
    return missing, [found[number] for number in matches.left]


class _Matches:
    """Which found row each expected one has, all by their numbers."""

    def __init__(self, expected: Sequence[Row], found: Sequence[Row]) -> None:
        self._expected, self._found = expected, found
        self._holders: dict[int, int] = {}
        self._held: dict[int, int] = {}
        #: Found rows that nobody has, and those that no further row can have.
        self.left = list(range(len(found)))
        self._lost: set[int] = set()
        self._known: dict[int, list[int]] = {}

    def take(self, number: int) -> bool:
        """Take the first row that is left and that an expected one fits; whether there is one."""
        row = next((n for n in self.left if _fits(self._expected[number], self._found[n])), None)
        if row is not None:
            self._hold(number, row)
        return row is not None

    def make_room(self, number: int) -> bool:
        """Take a row that others leave, by taking others themselves; whether they can."""
        wanted_by: dict[int, int] = {}
        looking = [number]
        for each in looking:
            for row in self._fitting(each):
                if row in wanted_by or row in self._lost:
                    continue
                wanted_by[row] = each
                if row in self._holders:
                    looking.append(self._holders[row])
                    continue
                free: int | None = row
                while free is not None:
                    holder = wanted_by[free]
                    before = self._held.get(holder)
                    self._hold(holder, free)
                    free = before
                return True
        self._lost |= wanted_by.keys()  # what was looked at in vain is so for later ones too
        return False

    def _hold(self, number: int, row: int) -> None:
        if row not in self._holders:
            self.left.remove(row)
        self._holders[row], self._held[number] = number, row

    def _fitting(self, number: int) -> list[int]:
        if number not in self._known:
            rows = enumerate(self._found)
            self._known[number] = [n for n, row in rows if _fits(self._expected[number], row)]
        return self._known[number]


def _fits(expected: Row, found: Row) -> bool:
    return all(name in found and _same(value, found[name]) for name, value in expected.items())


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        if _is_exact(expected) and _is_exact(found):
            return expected == found
        return math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return expected.keys() == found.keys() and all(
            _same(v, found[k]) for k, v in expected.items()
        )
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_same, expected, found))
    if isinstance(expected, str) and isinstance(found, str):
        return expected == found or _one_time(expected, found) or _encoded(expected, found)
    return bool(expected == found)


def _is_exact(number: float) -> bool:
    """Whether a number is a whole one, or has no more digits than a binary one holds for certain.

    Others come of computing with binary numbers, or were rounded by whoever wrote the test.
    """
    return isinstance(number, int) or float(f"{number:.15g}") == number


def _one_time(one: str, other: str) -> bool:
    try:
        times = [datetime.fromisoformat(text) for text in (one, other)]
    except ValueError:
        return False
    first, second = (t if t.tzinfo else t.replace(tzinfo=UTC) for t in times)
    return first == second


def _encoded(expected: str, found: str) -> bool:
    return base64.b64encode(expected.encode()).decode() == found
