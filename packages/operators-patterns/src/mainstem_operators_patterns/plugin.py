"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Operator, hookimpl

from mainstem_operators_patterns.match import Match
from mainstem_operators_patterns.match_patterns import MatchPatterns


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {"match": Match, "match_patterns": MatchPatterns}
