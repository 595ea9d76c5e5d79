"""Rows of one key in their order, and the matches that they make.

Each row that can be a first one begins a course; a course is where it is in the automaton, and splits
where several places may follow. Courses stand in the order of preference: an earlier first row before a
later one, and of one first row the preferred way before the others. A match is told when nothing that is
preferred to it is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mainstem_operators_patterns.automaton import Automaton
from mainstem_operators_patterns.expressions import Definition, Reference

#: Where a course is that has come to the end, and one that waits for nothing to follow.
MATCHED, WAITING = -1, -2

#: How many courses a key may have.
_MOST = 100_000

#: A match, or a course that took too long: its rows in order, by their numbers and places.
Found = list[tuple[int, int]]
#: The rows of a course: number of a row, place in the automaton, and the rows before.
Path = tuple[int, int, Any]


class TooManyError(ValueError):
    """A key has more partial matches than can be kept."""


class Course(NamedTuple):
    """A way through the automaton.

    Attributes:
        start: the number of its first row,
        began: and the time of that, in microseconds.
        place: where it is; see `MATCHED` and `WAITING`. Beyond the automaton's places it is at one where
            it might have ended.
        path: its rows, the last first.
        totals: what definitions ask of its rows.
        until: of one that waits, the time up to which nothing must follow.
    """

    start: int
    began: int
    place: int
    path: Path | None
    totals: tuple[Any, ...]
    until: int = 0


class Row(NamedTuple):
    """A row.

    Attributes:
        number: in its key, growing by one.
        at: its time, in microseconds.
        holds: a bit for each variable whose definition holds of it alone.
        values: what definitions need that look at rows before.
    """

    number: int
    at: int
    holds: int
    values: Sequence[Any]


@dataclass(frozen=True)
class Skip:
    """Where it goes on after a match.

    Attributes:
        to: `last`: behind its last row; `next`: behind its first; `first_of`, `last_of`: at the first, or
            last, row of a variable.
        variable: that one.
    """

    to: Literal["last", "next", "first_of", "last_of"]
    variable: str = ""


@dataclass
class Rules:
    """What a pattern says, as the matcher needs it.

    Attributes:
        names: the variables, whose bits are in this order.
        definitions: those that look at rows before, by the number of a variable.
        references: what these ask, over all of them.
        within: how long a match may last, in microseconds; None for ever.
        absent: the number of the variable that must not follow, and for how long.
        given: the values of a row, where they are more than these definitions need.
    """

    automaton: Automaton
    names: Sequence[str]
    skip: Skip
    within: int | None
    definitions: dict[int, Definition] = field(default_factory=dict)
    references: Sequence[Reference] = ()
    absent: tuple[int, int] | None = None
    given: Sequence[str] | None = None

    def __post_init__(self) -> None:
        numbers = {name: at for at, name in enumerate(self.names)}
        places = self.automaton.places
        self.numbers = [-1 if p.name is None else numbers[p.name] for p in places]
        self.between = [p.between for p in places]
        self.follows = [*(p.follows for p in places), *(p.later for p in places)]
        self.ends = [p.ends for p in places]
        self.begins = self.automaton.begins
        #: Rows that hold none of these begin nothing.
        self.first = 0
        for place in self.begins:
            number = self.numbers[place]
            self.first = -1 if number in self.definitions else self.first | 1 << number
            if self.first == -1:
                break
        #: By variable which references it adds to, with where their values are.
        self.adds: list[list[tuple[int, str, int]]] = []
        values: list[str] = []
        for definition in self.definitions.values():
            values += [sql for sql in definition.values if sql not in values]
        for reference in self.references:
            if reference.value and reference.value not in values:
                values.append(reference.value)
        values = values if self.given is None else list(self.given)
        self.values: Sequence[str] = values
        for name in self.names:
            adds = [
                (at, r.function, values.index(r.value) if r.value else -1)
                for at, r in enumerate(self.references)
                if r.variable in (None, name)
            ]
            self.adds.append(adds)
        self.nothing: tuple[Any, ...] = tuple(_nothing(r.function) for r in self.references)
        self.seen = {
            at: (
                [self.references.index(r) for r in definition.references],
                [values.index(sql) for sql in definition.values],
            )
            for at, definition in self.definitions.items()
        }


def _nothing(function: str) -> Any:
    return {"count": 0, "avg": (None, 0), "prev": (None, None), "first": ()}.get(function)


def _added(function: str, total: Any, value: Any) -> Any:
    """Return a total with a row's value; see `answer`."""
    if function == "prev":
        return (total[1], value)
    if function == "last":
        return value
    if function == "first":
        return total or (value,)
    if value is None:
        return total
    if function == "count":
        return total + 1
    if function == "avg":
        return (value if total[0] is None else total[0] + value, total[1] + 1)
    if total is None:
        return value
    if function == "sum":
        return total + value
    if total != total or value != value:  # NaN, the greatest number
        other = value if total != total else total
        return other if function == "min" else math.nan
    return min(total, value) if function == "min" else max(total, value)


def answer(function: str, total: Any) -> Any:
    """Return what a function says of a total."""
    if function == "avg":
        return None if not total[1] else total[0] / total[1]
    if function == "first":
        return total[0] if total else None
    return total[0] if function == "prev" else total


class Matcher:
    """The courses of one key.

    Args:
        courses: those that were kept.
        found, late: told matches, and courses that took too long.
    """

    def __init__(
        self,
        rules: Rules,
        courses: list[Course],
        found: Callable[[Found], None],
        late: Callable[[Found], None],
    ) -> None:
        self._rules = rules
        self.courses = courses
        self._found = found
        self._late = late

    def take(self, row: Row) -> None:
        """Take in the next row."""
        rules = self._rules
        courses = self.courses
        if courses:
            self.pass_time(row.at)
            courses = self.courses
        begins = rules.first == -1 or row.holds & rules.first
        if not courses and not begins:
            return
        made: list[Course] = []
        for course in courses:
            if course.place == MATCHED:
                made.append(course)
            elif course.place == WAITING:
                assert rules.absent is not None  # noqa: S101
                if not self.is_one(rules.absent[0], course, row):
                    made.append(course)
            else:
                self._follow(course, rules.follows[course.place], row, made)
        if begins:
            fresh = Course(row.number, row.at, MATCHED, None, rules.nothing)
            self._follow(fresh, rules.begins, row, made)
        self.courses = self._sifted(made)
        self._tell()

    def pass_time(self, now: int) -> None:
        """Let the time become that of the next row, or one that no row is before."""
        within = self._rules.within
        kept: list[Course] = []
        over: list[Course] = []
        changed = False
        for course in self.courses:
            if course.place == WAITING and course.until <= now:
                kept.append(course._replace(place=MATCHED))
                changed = True
            elif course.place >= 0 and within is not None and course.began + within <= now:
                over.append(course)
            else:
                kept.append(course)
        if not over and not changed:
            return
        self.courses = self._sifted(kept)
        left = {course.start for course in kept}
        furthest: dict[int, Course] = {}
        for course in over:
            if course.start not in left:
                known = furthest.get(course.start)
                if known is None or _length(course) > _length(known):
                    furthest[course.start] = course
        for course in furthest.values():
            self._late(rows_of(course.path))
        self._tell()

    def due(self) -> int | None:
        """Return the time at which courses change without a row; None if they never do."""
        within = self._rules.within
        times = [c.until for c in self.courses if c.place == WAITING]
        if within is not None:
            times += [c.began + within for c in self.courses if c.place >= 0]
        return min(times, default=None)

    def is_one(self, number: int, course: Course, row: Row) -> bool:
        """Whether a variable's definition holds of a row behind a course."""
        rules = self._rules
        definition = rules.definitions.get(number)
        if definition is None:
            return bool(row.holds >> number & 1)
        return self._looks(number, definition, self.totals(number, course, row), row)

    def _looks(self, number: int, definition: Definition, totals: Sequence[Any], row: Row) -> bool:
        rules = self._rules
        asked, needed = rules.seen[number]
        functions = [rules.references[at].function for at in asked]
        told = [answer(f, totals[at]) for f, at in zip(functions, asked, strict=True)]
        return definition.holds(told, [row.values[at] for at in needed])

    def totals(self, number: int, course: Course, row: Row) -> tuple[Any, ...]:
        """Return a course's totals with a row of a variable."""
        adds = self._rules.adds[number]
        if not adds:
            return course.totals
        totals = list(course.totals)
        for at, function, value in adds:
            given = row.values[value] if value >= 0 else 1
            totals[at] = _added(function, totals[at], given)
        return tuple(totals)

    def _follow(self, course: Course, places: Sequence[int], row: Row, made: list[Course]) -> None:
        """Add what becomes of a course with a row."""
        rules = self._rules
        for place in places:
            number = rules.numbers[place]
            if rules.between[place]:
                if number >= 0 and self.is_one(number, course, row):
                    continue
                made.append(course._replace(place=place))
                continue
            definition = rules.definitions.get(number)
            if definition is None and not row.holds >> number & 1:
                continue
            totals = self.totals(number, course, row) if rules.references else course.totals
            if definition is not None and not self._looks(number, definition, totals, row):
                continue
            path = (row.number, place, course.path)
            if rules.follows[place]:
                made.append(Course(course.start, course.began, place, path, totals))
            if rules.ends[place]:
                made.append(self._ended(course, path, totals, row.at))
                later = place + len(rules.ends)
                if rules.absent is not None and rules.follows[later]:
                    made.append(Course(course.start, course.began, later, path, totals))

    def _ended(self, course: Course, path: Path, totals: tuple[Any, ...], at: int) -> Course:
        absent = self._rules.absent
        if absent is None:
            return Course(course.start, course.began, MATCHED, path, totals)
        until = at + absent[1] if absent[1] >= 0 else course.began + (self._rules.within or 0)
        return Course(course.start, course.began, WAITING, path, totals, until)

    def _sifted(self, courses: list[Course]) -> list[Course]:
        """Leave out courses that nothing can come of: others of their first row are preferred."""
        kept: list[Course] = []
        start, matched = -1, False
        places: set[Any] = set()
        for course in courses:
            if course.start != start:
                start, matched = course.start, False
                places.clear()
            if matched:
                continue
            if course.place == MATCHED:
                matched = True
            elif course.place >= 0:
                # At one place, and with the same totals, they go on alike.
                place = (course.place, *map(repr, course.totals)) if course.totals else course.place
                if place in places:
                    continue
                places.add(place)
            kept.append(course)
        if len(kept) > _MOST:
            raise TooManyError(
                f"more than {_MOST:,} partial matches of one key: let definitions tell variables apart, "
                "or give a shorter `within`"
            )
        return kept

    def _tell(self) -> None:
        """Tell the matches that nothing is preferred to."""
        while self.courses and self.courses[0].place == MATCHED:
            match = self.courses[0]
            rows = rows_of(match.path)
            self._found(rows)
            target = self._target(rows)
            self.courses = [
                course
                for course in self.courses
                if course.start >= target and course.start > match.start
            ]

    def _target(self, rows: Sequence[tuple[int, int]]) -> int:
        """Return the first row that another match may begin with."""
        skip, first = self._rules.skip, rows[0][0]
        if skip.to == "last":
            return rows[-1][0] + 1
        if skip.to == "next":
            return first + 1
        number = self._rules.names.index(skip.variable)
        there = [row for row, place in rows if self._rules.numbers[place] == number]
        if not there:
            return first + 1
        return max(first + 1, there[0] if skip.to == "first_of" else there[-1])


def _length(course: Course) -> int:
    return len(rows_of(course.path))


def rows_of(path: Path | None) -> Found:
    """Return the rows of a path, the first first."""
    found = []
    while path is not None:
        found.append((path[0], path[1]))
        path = path[2]
    found.reverse()
    return found


def path_of(rows: Sequence[tuple[int, int]]) -> Path | None:
    """Return the path of rows."""
    path: Path | None = None
    for number, place in rows:
        path = (number, place, path)
    return path


def totals_of(rules: Rules, rows: Sequence[tuple[Row, int]]) -> tuple[Any, ...]:
    """Return what definitions ask of rows that a course has; with the places that they are at."""
    matcher = Matcher(rules, [], lambda _: None, lambda _: None)
    course = Course(0, 0, 0, None, rules.nothing)
    for row, place in rows:
        totals = matcher.totals(rules.numbers[place], course, row)
        course = course._replace(totals=totals, path=(row.number, place, course.path))
    return course.totals
