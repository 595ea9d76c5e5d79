"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Operator, hookimpl

from mainstem_operators_eventsourcing.decide import Decide
from mainstem_operators_eventsourcing.evolve import Evolve
from mainstem_operators_eventsourcing.upcast import Upcast


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {"decide": Decide, "evolve": Evolve, "upcast": Upcast}
