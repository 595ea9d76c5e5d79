"""Operator `match`: a pattern of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from mainstem import Inputs, OperatorCapabilities, OptionError, Shape, StateFacts, option

from mainstem_operators_patterns.automaton import (
    Automaton,
    UnfitPatternError,
    compiled,
)
from mainstem_operators_patterns.base import Matching, MatchingOptions
from mainstem_operators_patterns.expressions import Expression
from mainstem_operators_patterns.matching import Rules
from mainstem_operators_patterns.pattern import Pattern, PatternError, read_pattern, variables

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic


class MatchOptions(MatchingOptions):
    """Options of `match`."""

    pattern: str = option(
        min_length=1,
        description="Variables in the order of their rows: `a b` one after the other, `a ... b` with "
        "others between, `a !c b` with others between that are no `c`, `a | b` one of them, `( )` "
        "groups, `?`, `*`, `+`, `{2,5}` how often (as often as can be; with `?` behind as seldom), "
        "`{- a -}` rows that do not come out, `PERMUTE(a, b)` in any order; at the end `!c within 1 "
        "hour`: no `c` follows.",
        example="small{2,5} large",
    )


class Match(Matching):
    """Finds a pattern among the rows of each key, in the order of their time.

    Rows wait until the watermark has passed them. Partial matches that took too long come out of
    `timeouts`.
    """

    options: MatchOptions
    capabilities = OperatorCapabilities(keeps_names=False)

    # -- what the options say -----------------------------------------------------------------

    @cached_property
    def pattern(self) -> Pattern:
        """The pattern.

        Raises:
            OptionError: it can't be read, or names what is not there.
        """
        options = self.options
        try:
            found = read_pattern(options.pattern)
        except PatternError as error:
            raise OptionError(str(error), option="pattern") from None
        for name in options.define:
            if name not in found.names:
                raise OptionError(f"{name!r} is not in the pattern", option="define")
        if self.skips_to and self.skips_to not in set(variables(found.node)):
            raise OptionError(f"{self.skips_to!r} is not in the pattern", option="skip")
        if found.absence and found.absence.within is None and options.within is None:
            raise OptionError(
                f"how long must no {found.absence.name} follow?",
                option="pattern",
                hint=f"Write !{found.absence.name} within 1 hour, or give `within`.",
            )
        return found

    @cached_property
    def automaton(self) -> Automaton:
        """The pattern as an automaton."""
        try:
            return compiled(self.pattern)
        except UnfitPatternError as error:
            raise OptionError(str(error), option="pattern") from None

    @property
    def names(self) -> Sequence[str]:
        return self.pattern.names

    @cached_property
    def definitions(self) -> dict[str, Expression]:
        found = self._defined()
        between = {p.name for p in self.automaton.places if p.between and p.name}
        if self.pattern.absence:
            between.add(self.pattern.absence.name)
        for name in between & {n for n, each in found.items() if each.references}:
            raise OptionError(
                f"{name}: what must not be there is told by its row alone", option="define"
            )
        for name in between:
            if name not in found:
                raise OptionError(
                    f"{name!r} has no definition, so that every row is one", option="define"
                )
        return found

    def rules(self) -> Rules:
        """Return what the matcher goes by."""
        return self.vocabulary().rules(self.pattern, self.automaton)

    # -- what the core asks -------------------------------------------------------------------

    def _lasts(self) -> timedelta:
        absence = self.pattern.absence
        after = timedelta(0) if absence is None else absence.within or timedelta(0)
        return (self.options.within or timedelta(0)) + after

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        found = super().state(inputs)
        grows = ""
        if self.options.within is None:
            grows = "what has begun to match is kept until it ends: give `within`."
        shaped_by = {**found.shaped_by, "pattern": self.options.pattern}
        return replace(found, shaped_by=shaped_by, grows=grows)

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_patterns.match_logic import MatchLogic

        return MatchLogic(rows["input"], self.rules(), self.needed(), self._told(inputs))
