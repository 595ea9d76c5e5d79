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
    fitting = [[n for n, each in enumerate(found) if _fits(row, each)] for row in expected]
    matches: dict[int, int] = {}
    missing = [row for n, row in enumerate(expected) if not _matched(n, fitting, matches)]
    return missing, [row for n, row in enumerate(found) if n not in matches]


def _matched(number: int, fitting: Sequence[Sequence[int]], matches: dict[int, int]) -> bool:
    """Find a row for one more expected one, others of which may have to take another row for it.

    Args:
        fitting: of each expected row those found ones that it fits.
        matches: the expected row of each found one that has been taken, all by number; is changed.
    """
    wanted_by: dict[int, int] = {}
    looking = [number]
    for each in looking:
        for row in fitting[each]:
            if row in wanted_by:
                continue
            wanted_by[row] = each
            if row in matches:
                looking.append(matches[row])
                continue
            has = {holder: held for held, holder in matches.items()}
            free: int | None = row
            while free is not None:
                holder = wanted_by[free]
                matches[free] = holder
                free = has.get(holder)
            return True
    return False


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
