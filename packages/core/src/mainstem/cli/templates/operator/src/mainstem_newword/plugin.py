"""Wires the word to its class."""

from __future__ import annotations

from mainstem import Operator, hookimpl

from .operator import NewWordOperator


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    """Return the operators of this distribution, by their words."""
    return {"newword": NewWordOperator}
