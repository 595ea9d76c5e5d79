"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {
        "match": "mainstem_operators_patterns.match:Match",
        "match_patterns": "mainstem_operators_patterns.match_patterns:MatchPatterns",
    }
