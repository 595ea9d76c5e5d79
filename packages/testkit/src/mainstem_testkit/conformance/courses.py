"""Tries courses of a world: what may happen to runs, and when.

A course is a list of decisions, one for each step. All short ones are tried, and longer ones that are
made up by chance: always the same ones. Of one that shows a fault all decisions are left out that it can
do without.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from mainstem_testkit.conformance._delivery import Setting
from mainstem_testkit.conformance.world import BEGIN_ANEW, DONE, FAIL, KILL, LOST, Decision, World

#: How many decisions the courses have that are all tried.
SHORT = 2
#: How many decisions one by chance has at most, with a few batches and with many.
STEPS, MANY_STEPS = 12, 50
#: How probable it is that another checkpoint begins, that the next run does, and that a call is done.
_ANEW, _NEXT, _DONE = 0.03, 0.4, 0.6
#: How many courses are tried once there is a fault to tell.
_ENOUGH = 40
#: How many courses are taken twice, to see whether the same happens.
_TWICE = 8


@dataclass(frozen=True)
class Finding:
    """A fault, and a course that shows it, of which no decision can be left out."""

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
class Tried:
    """What trying courses of a setting has shown.

    Attributes:
        names: of the calls that the strategy made.
        findings: by the kind of fault.
    """

    setting: Setting
    names: set[str] = field(default_factory=set)
    findings: dict[str, Finding] = field(default_factory=dict)


def tried(setting: Setting, courses: int, *, short: int = SHORT, steps: int = STEPS) -> Tried:
    """Try courses, and note what they show.

    Args:
        courses: how many are made up by chance.
        short: how many decisions those have at most that are all tried.
        steps: how many those by chance have at most.

    Raises:
        AssertionError: the strategy does otherwise when the same happens again, so that courses can't
            be told by their decisions.
    """
    found = Tried(setting)
    shorter = replace(setting, batches=min(setting.batches, 3), runs=2)
    for course in every(setting, short):
        for kind, text in played(setting, course).faults.items():
            found.findings.setdefault(kind, Finding(setting, course, kind, text))
    for number in range(courses):
        if found.findings and number >= _ENOUGH:
            break
        chosen, world = by_chance(setting, f"{setting} {number}", steps)
        if number < _TWICE:
            again = played(setting, chosen)
            if list(again.transcript()) != list(world.transcript()):
                raise AssertionError(
                    "the strategy does not do the same when the same happens again, so it keeps "
                    f"something outside itself: {written(chosen)}"
                )
        found.names |= world.names
        for kind in world.faults.keys() - found.findings.keys():
            found.findings[kind] = shortened((shorter, setting), chosen, kind)
    return found


def longer(setting: Setting) -> Setting:
    """Return a setting with more batches, and more runs at the same time."""
    return replace(setting, batches=12, runs=3)


def every(setting: Setting, most: int) -> Iterator[tuple[Decision, ...]]:
    """Yield all courses of at most so many decisions, the shortest first."""
    courses: list[tuple[Decision, ...]] = [()]
    for _ in range(most):
        courses = [(*course, each) for course in courses for each in _choices(setting, course)]
        yield from courses


def _choices(setting: Setting, course: Sequence[Decision]) -> list[Decision]:
    world = World(setting)
    for decision in course:
        world.take(decision)
    found = [] if world.faults else world.choices()
    world.close()
    return found


def by_chance(setting: Setting, seed: str, steps: int) -> tuple[list[Decision], World]:
    """Return a course that is made up by chance, and a world after it and its end."""
    chance = random.Random(seed)
    world = World(setting)
    course: list[Decision] = []
    while len(course) < steps and not world.faults and (choices := world.choices()):
        decision = _chosen(chance, world, choices)
        course.append(decision)
        world.take(decision)
    _end(world)
    return course, world


def _chosen(chance: random.Random, world: World, choices: Sequence[Decision]) -> Decision:
    """Choose who goes on: the next run seldom, another checkpoint still more so; oftenest all is done."""
    labels = sorted({label for label, _ in choices} - {BEGIN_ANEW[0]})
    alive = [label for label in labels if label <= len(world.runs)]
    others = labels[len(alive) :]
    if BEGIN_ANEW in choices and (not labels or chance.random() < _ANEW):
        return BEGIN_ANEW
    begins = others and (not alive or chance.random() < _NEXT)
    label = chance.choice(others if begins else alive)
    outcomes = [outcome for each, outcome in choices if each == label]
    well = DONE in outcomes and chance.random() < _DONE
    return label, DONE if well else chance.choice(outcomes)


def played(setting: Setting, course: Sequence[Decision]) -> World:
    """Return a world after a course and its end, with all processes ended."""
    world = World(setting)
    for decision in course:
        world.take(decision)
    _end(world)
    return world


def _end(world: World) -> None:
    if not world.faults:
        world.finish()
        world.check()
    world.close()


def shortened(settings: Sequence[Setting], course: Sequence[Decision], kind: str) -> Finding:
    """Return a course that shows a kind of fault, and of which no decision can be left out.

    Args:
        settings: they differ in the number of batches; the first that shows the fault is taken.
        course: shows the fault in the last of them.
        kind: of the fault.
    """

    def shows(setting: Setting, course: Sequence[Decision]) -> bool:
        return kind in played(setting, course).faults

    def without(at: int, size: int, course: tuple[Decision, ...]) -> tuple[Decision, ...]:
        left = (*course[:at], *course[at + size :])
        labels = {0: 0}
        for label, _ in left:  # runs begin in the order of their numbers
            labels.setdefault(label, len(labels))
        return tuple((labels[label], outcome) for label, outcome in left)

    course = tuple(course)
    size = (len(course) + 1) // 2
    while size:
        shorter = (without(at, size, course) for at in range(len(course) - size + 1))
        found = next((each for each in shorter if shows(settings[-1], each)), None)
        course, size = (found, min(size, len(found))) if found is not None else (course, size - 1)
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
