"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Operator, hookimpl

from mainstem_operators_search.percolate import Percolate


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {"percolate": Percolate}
