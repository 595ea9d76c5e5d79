"""What variables are, of which patterns are made; and a pattern's rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from mainstem_operators_patterns.automaton import Automaton, compiled
from mainstem_operators_patterns.expressions import Definition, Expression, Reference, referred
from mainstem_operators_patterns.matching import Rules, Skip
from mainstem_operators_patterns.pattern import Pattern, read_pattern

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Vocabulary:
    """The variables of patterns, and what all of these share.

    Attributes:
        names: the variables, whose bits are in this order.
        definitions: what rows of them are; of one that is left out every row is one.
        skip: where it goes on after a match.
        within: how long a match may last, in microseconds; None for ever.
    """

    names: Sequence[str]
    definitions: Mapping[str, Expression]
    skip: Skip
    within: int | None

    @cached_property
    def _looking(self) -> dict[str, Expression]:
        """The definitions that look at rows before."""
        return {n: each for n, each in self.definitions.items() if each.references}

    @cached_property
    def _by_number(self) -> dict[int, Definition]:
        return {self.names.index(name): Definition(each) for name, each in self._looking.items()}

    @cached_property
    def _references(self) -> list[Reference]:
        return list(referred(iter(self._looking.values())))

    @property
    def values(self) -> list[str]:
        """The SQL of one row that definitions need: the values of a `Row`, in this order."""
        found = [sql for definition in self._by_number.values() for sql in definition.values]
        return list(dict.fromkeys([*found, *(r.value for r in self._references if r.value)]))

    def rules(self, pattern: Pattern, automaton: Automaton) -> Rules:
        """Return the rules of a pattern of these variables."""
        absent = None
        if (absence := pattern.absence) is not None:
            length = -1 if absence.within is None else absence.within // _MICROSECOND
            absent = (self.names.index(absence.name), length)
        looking = {n: each for n, each in self._looking.items() if n in pattern.names}
        by_number = self._by_number
        numbers = [self.names.index(name) for name in looking]
        return Rules(
            automaton,
            self.names,
            self.skip,
            self.within,
            {number: by_number[number] for number in numbers},
            list(referred(iter(looking.values()))),
            absent,
            self.values,
        )

    @cached_property
    def mark(self) -> str:
        """What tells it from others."""
        known = {n: (each.texts, each.references) for n, each in self.definitions.items()}
        return repr((tuple(self.names), known, self.skip, self.within))

    def read(self, text: str) -> Rules:
        """Return the rules of a pattern that comes as data.

        Raises:
            ValueError: it can't be read, or says what these variables can't.
        """
        try:
            pattern = read_pattern(text)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        for name in pattern.names:
            if name not in self.names:
                raise ValueError(f"there is no {name!r} in `define`: {', '.join(self.names)}")
        automaton = compiled(pattern)
        between = {p.name for p in automaton.places if p.between and p.name}
        if (absence := pattern.absence) is not None:
            between.add(absence.name)
            longest = self.within
            if longest is not None and (absence.within or timedelta(0)) // _MICROSECOND > longest:
                raise ValueError(f"waits longer than `within` for no {absence.name}")
        for name in sorted(between & self._looking.keys()):
            raise ValueError(f"{name}: what must not be there is told by its row alone")
        for name in pattern.names:
            for reference in self._looking[name].references if name in self._looking else ():
                if reference.variable not in (None, name, *pattern.names):
                    raise ValueError(f"{name} looks at {reference.variable}, which is not in it")
        return self.rules(pattern, automaton)
