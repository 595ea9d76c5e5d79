"""Operator `deduplicate`: of rows that are copies of each other one stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from mainstem import (
    Events,
    Inputs,
    OperatorCapabilities,
    Options,
    PositiveDuration,
    Shape,
    StateFacts,
    option,
)
from mainstem_keyed_state import event_time
from mainstem_keyed_state.by_key import ByKey, needed_time, waited

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic

_MICROSECOND = timedelta(microseconds=1)


class DeduplicateOptions(Options):
    """Options of `deduplicate`."""

    by: list[str] = option(
        min_length=1,
        description="The columns in which copies are equal; null equals null.",
        example=["order_id"],
    )
    within: PositiveDuration = option(
        description="How far from the row that stays, by event time, another is its copy. So long a row "
        "is remembered, by the watermark.",
        example="1 hour",
    )
    keep: Literal["first", "last"] = option(
        "first",
        description="`first`: the row that comes first, at once. `last`: the last one within `within` of "
        "the earliest, when the watermark has passed that time; which it is hangs on event times alone.",
    )


class Deduplicate(ByKey):
    """Gives one of the rows that are equal in some columns and near each other in time.

    The others come out of `copies`.
    """

    options: DeduplicateOptions

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """Which row comes first depends on how the rows come."""
        return OperatorCapabilities(passes_ids=True, batch_invariant=self.options.keep == "last")

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        self.key_columns(given)
        time, same = needed_time(given), given.with_columns(given.columns)
        if self.options.keep == "first":
            return same
        late = time.behind + self.options.within  # the last row has waited as long as the first one
        return replace(same, event_time=replace(waited(time), behind=late))

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"copies": Events(inputs.only.columns), **super().outputs(inputs)}

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        keep = self.options.keep
        found = super().state(inputs)
        shaped_by: dict[str, object] = {**found.shaped_by, "keep": keep}
        if keep == "first":
            return replace(found, shaped_by=shaped_by)
        shaped_by["columns"] = list(inputs.only.names)
        return replace(found, shaped_by=shaped_by, gains=frozenset({"columns"}), waits=True)

    def holds(self, inputs: Inputs[Shape]) -> timedelta:
        return self.options.within + _MICROSECOND if self.options.keep == "last" else timedelta(0)

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_windows.deduplicate_logic import FirstLogic, LastLogic

        make = FirstLogic if self.options.keep == "first" else LastLogic
        within = self.options.within // _MICROSECOND
        return make(rows["input"], event_time(inputs.only) or "", within)
