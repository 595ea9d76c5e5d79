"""What becomes of each row of a key, in words: which variable it is, and why it is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mainstem_operators_patterns.matching import (
    WAITING,
    Course,
    Found,
    Matcher,
    Row,
    Rules,
    answer,
    rows_of,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Traced:
    """A row, and what became of it.

    Attributes:
        number: in its key, from 1.
        at: its time.
        holds: the variables that it is by itself, whatever was before.
        lines: what it did, and what it was not, in words.
    """

    number: int
    at: datetime
    holds: list[str]
    lines: list[str] = field(default_factory=list)


class Trace:
    """The rows of one key, in order, with what becomes of them.

    Args:
        define: the definitions as the document has them, by variable.
    """

    def __init__(self, rules: Rules, define: dict[str, str]) -> None:
        self._rules = rules
        self._define = define
        self._matcher = Matcher(rules, [], self._found, self._late)
        self._lines: list[str] = []
        #: The first rows of what has matched, or was too late, with the row in hand.
        self._ended: set[int] = set()
        self.matches = 0

    def take(self, row: Row) -> Traced:
        """Return what becomes of the next row."""
        rules = self._rules
        before = list(self._matcher.courses)
        self._lines, self._ended = [], set()
        self._matcher.take(row)
        own = [
            name
            for at, name in enumerate(rules.names)
            if at not in rules.definitions and row.holds >> at & 1
        ]
        known = {course.start for course in before}
        for start in dict.fromkeys(course.start for course in self._matcher.courses):
            now = [c for c in self._matcher.courses if c.start == start]
            told = " or ".join(dict.fromkeys(self._named(rows_of(c.path)) for c in now))
            if start not in known:
                self._lines.append(f"begins {start + 1}: {told}")
            elif {c.path for c in now} != {c.path for c in before if c.start == start}:
                waits = ", and waits" if all(c.place == WAITING for c in now) else ""
                self._lines.append(f"{start + 1}: {told}{waits}")
        left = {course.start for course in self._matcher.courses}
        for start in sorted(known - left - self._ended):
            mine = [course for course in before if course.start == start]
            self._lines.append(f"{start + 1} ends: {self._why(mine, row)}")
        if not before and not self._lines:
            fresh = Course(row.number, row.at, 0, None, rules.nothing)
            self._lines.append(f"begins nothing: {self._lacks(fresh, rules.begins, row)}")
        return Traced(row.number + 1, _time(row.at), own, self._lines)

    def end(self, watermark: int) -> list[str]:
        """Return what becomes of what has begun when time has passed."""
        self._lines, self._ended = [], set()
        self._matcher.pass_time(watermark)
        return self._lines

    def _found(self, rows: Found) -> None:
        self.matches += 1
        self._ended.add(rows[0][0])
        self._lines.append(f"match {self.matches}: {self._named(rows)} ({self._numbers(rows)})")

    def _late(self, rows: Found) -> None:
        self._ended.add(rows[0][0])
        within = timedelta(microseconds=self._rules.within or 0)
        self._lines.append(
            f"{rows[0][0] + 1} is over after {within}: {self._named(rows)} ({self._numbers(rows)})"
        )

    def _named(self, rows: Found) -> str:
        places = self._rules.automaton.places
        return " ".join(str(places[place].name) for _, place in rows)

    def _numbers(self, rows: Found) -> str:
        return f"rows {', '.join(str(number + 1) for number, _ in rows)}"

    def _why(self, courses: Sequence[Course], row: Row) -> str:
        """Return why none of the courses of a first row goes on with a row."""
        if all(course.place == WAITING for course in courses):
            absent = self._rules.absent
            assert absent is not None  # noqa: S101
            return f"it is a {self._rules.names[absent[0]]}, which must not follow"
        told: list[str] = []
        for course in courses:
            if course.place >= 0:
                follows = self._rules.follows[course.place]
                if self._goes_on(course, follows, row):
                    return "a match has taken its rows"
                told.append(self._lacks(course, follows, row))
        return "; ".join(dict.fromkeys(told)) or "a match has taken its rows"

    def _goes_on(self, course: Course, places: Sequence[int], row: Row) -> bool:
        rules = self._rules
        numbers = [rules.numbers[place] for place in places if not rules.between[place]]
        return any(self._matcher.is_one(number, course, row) for number in numbers)

    def _lacks(self, course: Course, places: Sequence[int], row: Row) -> str:
        """Return which variables a row would have had to be, and why it is none."""
        return "; ".join(dict.fromkeys(self._reasons(course, places, row)))

    def _reasons(self, course: Course, places: Sequence[int], row: Row) -> Iterator[str]:
        rules = self._rules
        for place in places:
            number = rules.numbers[place]
            if rules.between[place]:
                if number >= 0:
                    yield f"a {rules.names[number]} is between"
                continue
            name = rules.names[number]
            said = f"no {name} ({self._define[name]})"
            definition = rules.definitions.get(number)
            if definition is None:
                yield said
                continue
            totals = self._matcher.totals(number, course, row)
            values = []
            for at in rules.seen[number][0]:
                reference = rules.references[at]
                value = _shown(answer(reference.function, totals[at]))
                values.append(f"{_written(reference)} is {value}")
            yield f"{said}: {', '.join(values)}"


def _written(reference: Any) -> str:
    what = reference.value or "*"
    of = what if reference.variable is None else f"{reference.variable}.{what}"
    if not reference.value and reference.variable is not None:
        of = reference.variable
    return f"{reference.function}({of})"


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)


def _time(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
