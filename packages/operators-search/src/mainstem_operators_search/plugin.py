"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {"percolate": "mainstem_operators_search.percolate:Percolate"}
