"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Operator, hookimpl

from mainstem_operators_windows.aggregate import Aggregate
from mainstem_operators_windows.clock import Clock
from mainstem_operators_windows.deduplicate import Deduplicate
from mainstem_operators_windows.rates import Rates
from mainstem_operators_windows.sample import Sample
from mainstem_operators_windows.sort import Sort
from mainstem_operators_windows.top import Top


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {
        "aggregate": Aggregate,
        "clock": Clock,
        "deduplicate": Deduplicate,
        "rates": Rates,
        "sample": Sample,
        "sort": Sort,
        "top": Top,
    }
