"""A plain, slow computation of matches, by a pattern's own parts and all rows of a key at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from mainstem_operators_patterns.pattern import (
    Between,
    Choice,
    Node,
    Pattern,
    Repeat,
    Variable,
)
from mainstem_operators_patterns.pattern import Sequence as Following

#: Whether a row, by its number, is of a variable behind rows that are of others.
Holds = Callable[[str, int, Sequence[tuple[int, str]]], bool]
Path = list[tuple[int, str]]


def ways(node: Node, at: int, path: Path, count: int, holds: Holds) -> Iterator[tuple[int, Path]]:
    """Yield where each way through a node ends, and its rows, the preferred first."""
    if isinstance(node, Variable):
        if at < count and holds(node.name, at, path):
            yield at + 1, [*path, (at, node.name)]
    elif isinstance(node, Between):
        while True:
            yield at, path
            if at >= count or (node.unless and holds(node.unless, at, path)):
                return
            at += 1
    elif isinstance(node, Following):
        if not node.items:
            yield at, path
            return
        for end, taken in ways(node.items[0], at, path, count, holds):
            yield from ways(Following(node.items[1:]), end, taken, count, holds)
    elif isinstance(node, Choice):
        for option in node.options:
            yield from ways(option, at, path, count, holds)
    else:
        yield from _repeated(node, 0, at, path, count, holds)


def _repeated(
    node: Repeat, done: int, at: int, path: Path, count: int, holds: Holds
) -> Iterator[tuple[int, Path]]:
    def more() -> Iterator[tuple[int, Path]]:
        if node.most is not None and done >= node.most:
            return
        for end, taken in ways(node.item, at, path, count, holds):
            # One without a row counts, as the standard has it, but where it would go on for ever.
            if end > at or done < node.least or node.most is not None:
                yield from _repeated(node, done + 1, end, taken, count, holds)

    if done < node.least:
        yield from more()
    elif node.greedy:
        yield from more()
        yield at, path
    else:
        yield at, path
        yield from more()


def matches(
    pattern: Pattern,
    times: Sequence[Any],
    holds: Holds,
    within: timedelta | None,
    skip: str = "past_last_row",
) -> list[Path]:
    """Return the matches of rows, given by their times, in order."""
    found: list[Path] = []
    start, count = 0, len(times)
    while start < count:
        match = next(
            (
                path
                for _, path in ways(pattern.node, start, [], count, holds)
                if _lasts(path, times, within) and _unfollowed(pattern, path, times, holds, within)
            ),
            None,
        )
        if match is None:
            start += 1
            continue
        found.append(match)
        start = max(start + 1, _target(match, skip))
    return found


def _lasts(path: Path, times: Sequence[Any], within: timedelta | None) -> bool:
    return within is None or times[path[-1][0]] - times[path[0][0]] < within


def _unfollowed(
    pattern: Pattern, path: Path, times: Sequence[Any], holds: Holds, within: timedelta | None
) -> bool:
    if pattern.absence is None:
        return True
    last = path[-1][0]
    until = times[path[0][0]] + (within or timedelta())
    if pattern.absence.within is not None:
        until = times[last] + pattern.absence.within
    after = (at for at in range(last + 1, len(times)) if times[at] < until)
    return not any(holds(pattern.absence.name, at, path) for at in after)


def _target(match: Path, skip: str) -> int:
    if skip == "past_last_row":
        return match[-1][0] + 1
    if skip == "to_next_row":
        return match[0][0] + 1
    which, name = skip.split()
    there = [at for at, each in match if each == name]
    if not there:
        return match[0][0] + 1
    return there[0] if which == "to_first" else there[-1]
