"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {
        "decide": "mainstem_operators_eventsourcing.decide:Decide",
        "evolve": "mainstem_operators_eventsourcing.evolve:Evolve",
        "upcast": "mainstem_operators_eventsourcing.upcast:Upcast",
    }
