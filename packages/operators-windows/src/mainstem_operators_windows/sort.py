"""Operator `sort`: rows come out in the order of their event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from mainstem import EVENTS, Inputs, OperatorCapabilities, Options, Shape, StateFacts, option
from mainstem_keyed_state import KeyedOperator, event_time, lacking

from mainstem_operators_windows.keyed import key_of, time_of, waited

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


class Sort(KeyedOperator):
    """Holds rows back until the watermark has passed them, and gives them in the order of their time."""

    options: SortOptions
    ports = {"input": EVENTS}
    capabilities = OperatorCapabilities(passes_ids=True)
    nulls_equal = True

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        key_of(given, self.options.by)
        return replace(given.with_columns(given.columns), event_time=waited(time_of(given)))

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        columns = {"columns": list(inputs.only.names)}
        found = super().state(inputs)
        return replace(
            found,
            shaped_by={**found.shaped_by, **columns},
            gains=frozenset({"columns"}),
            waits=True,
        )

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        return {"input": key_of(inputs.only, self.options.by)}

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        return {"input": lacking(filter(None, [event_time(inputs.only)]))}

    def in_time(self, inputs: Inputs[Shape]) -> str | None:
        return "input"

    def holds(self, inputs: Inputs[Shape]) -> timedelta:
        return timedelta(microseconds=1)

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_windows.sort_logic import SortLogic

        return SortLogic(rows["input"], event_time(inputs.only) or "")
