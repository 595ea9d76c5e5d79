"""Wires the words of this distribution to the classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {
        "aggregate": "mainstem_operators_windows.aggregate:Aggregate",
        "clock": "mainstem_operators_windows.clock:Clock",
        "deduplicate": "mainstem_operators_windows.deduplicate:Deduplicate",
        "rates": "mainstem_operators_windows.rates:Rates",
        "sample": "mainstem_operators_windows.sample:Sample",
        "sort": "mainstem_operators_windows.sort:Sort",
        "top": "mainstem_operators_windows.top:Top",
    }
