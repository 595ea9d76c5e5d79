"""What holds end to end: whether an event can be lost, and whether its effect can be doubled."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Level(StrEnum):
    """The field's words. `exactly-once` means the effect of each event, once."""

    NONE = "none"
    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True)
class Promise:
    """What a step of a path, or a whole path, promises.

    `reasons` say, one for each, why it is not more; `grounds` why it is as much; `assumptions` what
    must hold for it to be true (retention, a horizon, a shared folder).
    """

    may_lose: bool = False
    may_double: bool = False
    reasons: tuple[str, ...] = field(default=())
    assumptions: tuple[str, ...] = field(default=())
    grounds: tuple[str, ...] = field(default=())

    @property
    def level(self) -> Level:
        """The promise in one word."""
        if self.may_lose:
            return Level.NONE if self.may_double else Level.AT_MOST_ONCE
        return Level.AT_LEAST_ONCE if self.may_double else Level.EXACTLY_ONCE

    def then(self, other: Promise) -> Promise:
        """Return what this step and the next promise together."""
        return Promise(
            self.may_lose or other.may_lose,
            self.may_double or other.may_double,
            self.reasons + tuple(r for r in other.reasons if r not in self.reasons),
            self.assumptions + tuple(a for a in other.assumptions if a not in self.assumptions),
            self.grounds + tuple(g for g in other.grounds if g not in self.grounds),
        )

    def meets(self, required: Level) -> bool:
        """Whether this is at least what `required` asks: nothing lost, nothing doubled, or both."""
        if required is Level.AT_MOST_ONCE:
            return not self.may_double
        if required is Level.AT_LEAST_ONCE:
            return not self.may_lose
        return required is Level.NONE or not (self.may_lose or self.may_double)
