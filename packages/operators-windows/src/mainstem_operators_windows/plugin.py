"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Operator, hookimpl

from mainstem_operators_windows.aggregate import Aggregate
from mainstem_operators_windows.deduplicate import Deduplicate
from mainstem_operators_windows.sort import Sort
from mainstem_operators_windows.top import Top


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {"aggregate": Aggregate, "deduplicate": Deduplicate, "sort": Sort, "top": Top}
