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
    left = list(found)
    missing = []
    # Rows that say most come first, so that a vague one does not take another's match.
    for row in sorted(expected, key=len, reverse=True):
        match = next((each for each in left if _fits(row, each)), None)
        if match is None:
            missing.append(row)
        else:
            left.remove(match)
    return missing, left


def _fits(expected: Row, found: Row) -> bool:
    return all(name in found and _same(value, found[name]) for name, value in expected.items())


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
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


def _one_time(one: str, other: str) -> bool:
    try:
        times = [datetime.fromisoformat(text) for text in (one, other)]
    except ValueError:
        return False
    first, second = (t if t.tzinfo else t.replace(tzinfo=UTC) for t in times)
    return first == second


def _encoded(expected: str, found: str) -> bool:
    return base64.b64encode(expected.encode()).decode() == found
