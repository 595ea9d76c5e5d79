"""Tries every course of a world, up to a depth: what may happen to runs, and when.

A course is a list of decisions, one for each step. Courses that lead to the same state go on alike, so
each state is gone on from once, and from each all is also let come to its end without faults. Courses are
tried in the order of their length, so what is found is found in the fewest decisions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mainstem_testkit.conformance.setting import Setting
from mainstem_testkit.conformance.world import BEGIN_ANEW, DONE, FAIL, KILL, LOST, Decision, World

#: How deep a setting is tried that is like another one.
_GLANCE = 4


@dataclass(frozen=True)
class Finding:
    """A fault, and the shortest course that shows it."""

    setting: Setting
    course: tuple[Decision, ...]
    kind: str
    text: str

    def __str__(self) -> str:
        steps = "\n".join(f"  {line}" for line in played(self.setting, self.course).transcript())
        return (
            f"{self.kind}: {self.text}\n"
            f"  again: self.replay({str(self.setting)!r}, {written(self.course)!r})\n{steps}"
        )


@dataclass
class Explored:
    """What trying out a setting has shown.

    Attributes:
        courses: how many there are of at most the depth.
        states: how many states they led to.
        calls: what the strategy calls next, by what it has been told since the write began.
        plain: whether nothing but that decides.
    """

    setting: Setting
    depth: int
    courses: int = 0
    states: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    calls: dict[tuple[Any, ...], str] = field(default_factory=dict)
    plain: bool = True

    @property
    def names(self) -> set[str]:
        """The names of the calls that were made."""
        return {*self.calls.values()}

    def like(self, other: Explored) -> bool:
        """Whether another setting's courses would show the same.

        The strategy calls the same for as long as it was watched, and the far side treats what it
        calls alike.
        """
        mine, theirs = self.setting, other.setting
        alike = self.plain and other.plain and self.names == other.names
        alike = alike and all(
            self.calls[told] == other.calls[told] for told in self.calls.keys() & other.calls.keys()
        )
        alike = alike and mine.promise.level == theirs.promise.level
        if "write" in self.names:
            alike = alike and mine.sink.replaces == theirs.sink.replaces
        if "stage" in self.names:
            alike = alike and mine.sink.apart == theirs.sink.apart
        if "write_keyed" in self.names:
            alike = alike and mine.shape == theirs.shape
        return alike


def explore_all(settings: Sequence[Setting], depth: int) -> list[Explored]:
    """Try every course of each setting; of one that is like an earlier one, only the short ones."""
    found: list[Explored] = []
    for setting in settings:
        glance = explore(setting, min(depth, _GLANCE))
        known = any(each.depth == depth and glance.like(each) for each in found)
        found.append(glance if known else explore(setting, depth))
    return found


def explore(setting: Setting, depth: int) -> Explored:
    """Try every course of at most so many decisions.

    Raises:
        AssertionError: the strategy does otherwise when the same happens again, so that courses can't
            be told by their decisions.
    """
    found = Explored(setting, depth)
    begun = World(setting)
    numbers = {begun.key(): 0}
    next_of: list[list[int]] = [[]]  # the states that a state leads to
    left: deque[tuple[tuple[Decision, ...], int, list[str], list[Decision]]]
    left = deque([((), 0, [], begun.choices())])
    while left:
        course, state, calls, choices = left.popleft()
        for decision in choices:
            world = played(setting, course, end=False)
            if [run.calls for run in world.alive()] != calls:
                raise AssertionError(
                    "the strategy does not do the same when the same happens again, so it keeps "
                    f"something outside itself: {written(course)}"
                )
            world.take(decision)
            _watch(world, found)
            key = world.key()
            new = key not in numbers
            next_of[state].append(numbers.setdefault(key, len(numbers)))
            if new or world.faults:
                longer = (*course, decision)
                if new:
                    next_of.append([])
                    if len(longer) < depth and not world.faults:
                        calls_now = [run.calls for run in world.alive()]
                        left.append((longer, numbers[key], calls_now, world.choices()))
                if not world.faults:
                    world.finish()
                    world.check()
                for kind, text in world.faults.items():
                    found.findings.setdefault(kind, Finding(setting, longer, kind, text))
            world.close()
    found.states = len(numbers)
    found.courses = _courses(next_of, depth)
    return found


def _watch(world: World, found: Explored) -> None:
    for run in world.runs:
        found.plain = found.plain and run.plain
    for run in world.alive():
        found.calls[run.history] = run.calls


def _courses(next_of: Sequence[Sequence[int]], depth: int) -> int:
    """Return how many ways there are of at most so many steps from the first state."""
    ways, total = {0: 1}, 0
    for _ in range(depth):
        after: dict[int, int] = {}
        for state, count in ways.items():
            for each in next_of[state]:
                after[each] = after.get(each, 0) + count
        ways = after
        total += sum(ways.values())
    return total


def played(setting: Setting, course: Sequence[Decision], *, end: bool = True) -> World:
    """Return a world after a course; with its end, and all processes ended, if asked."""
    world = World(setting)
    for decision in course:
        world.take(decision)
    if end:
        if not world.faults:
            world.finish()
            world.check()
        world.close()
    return world


def shortened(settings: Sequence[Setting], course: Sequence[Decision], kind: str) -> Finding:
    """Return a course that shows a kind of fault, and of which no decision can be left out.

    Args:
        settings: they differ in the number of batches; the first that shows the fault is taken.
        course: shows the fault in the last of them.
        kind: of the fault.
    """

    def shows(setting: Setting, course: Sequence[Decision]) -> bool:
        return kind in played(setting, course).faults

    def without(at: int, course: tuple[Decision, ...]) -> tuple[Decision, ...]:
        left = (*course[:at], *course[at + 1 :])
        labels = {0: 0}
        for label, _ in left:  # runs begin in the order of their numbers
            labels.setdefault(label, len(labels))
        return tuple((labels[label], outcome) for label, outcome in left)

    course, at = tuple(course), 0
    while at < len(course):
        shorter = without(at, course)
        course, at = (shorter, 0) if shows(settings[-1], shorter) else (course, at + 1)
    setting = next(each for each in settings if shows(each, course))
    return Finding(setting, course, kind, played(setting, course).faults[kind])


def written(course: Sequence[Decision]) -> str:
    """Return a course as text."""
    return ", ".join(f"{label} {outcome}" for label, outcome in course)


def read(text: str) -> tuple[Decision, ...]:
    """Return the course that `written` has written.

    Raises:
        ValueError: it is none.
    """
    found: list[Decision] = []
    for part in text.split(", ") if text else ():
        label, _, outcome = part.partition(" ")
        decision = (int(label), outcome)
        if decision != BEGIN_ANEW and (outcome not in (DONE, FAIL, LOST, KILL) or decision[0] < 1):
            raise ValueError(f"{part!r} is no decision, such as '1 {LOST}' or '0 {BEGIN_ANEW[1]}'")
        found.append(decision)
    return tuple(found)
