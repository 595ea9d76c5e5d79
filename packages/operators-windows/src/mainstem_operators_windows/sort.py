"""Operator `sort`: rows come out in the order of their event time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from mainstem import Inputs, OperatorCapabilities, Options, Shape, StateFacts, option
from mainstem_keyed_state import event_time
from mainstem_keyed_state.by_key import ByKey, needed_time, waited

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic


class SortOptions(Options):
    """Options of `sort`."""

    by: list[str] = option(
        list,
        description="The key columns: rows of a key come in order. When left out, all rows do, and one "
        "task does the work.",
        example=["device"],
    )


class Sort(ByKey):
    """Holds rows back until the watermark has passed them, and gives them in the order of their time."""

    options: SortOptions
    capabilities = OperatorCapabilities(passes_ids=True)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        self.key_columns(given)
        return replace(given.with_columns(given.columns), event_time=waited(needed_time(given)))

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        columns = {"columns": list(inputs.only.names)}
        found = super().state(inputs)
        return replace(
            found,
            shaped_by={**found.shaped_by, **columns},
            gains=frozenset({"columns"}),
            waits=True,
        )

    def holds(self, inputs: Inputs[Shape]) -> timedelta:
        return timedelta(microseconds=1)

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_windows.sort_logic import SortLogic

        return SortLogic(rows["input"], event_time(inputs.only) or "")
