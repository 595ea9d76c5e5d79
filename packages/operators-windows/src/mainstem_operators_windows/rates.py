"""Operator `rates`: how often a key has events, and how unusual a value is for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from mainstem import (
    Inputs,
    OperatorCapabilities,
    OptionError,
    Options,
    PositiveDuration,
    Shape,
    StateFacts,
    option,
)
from mainstem.columns import Column, check_names, find_column
from mainstem_keyed_state import event_time
from mainstem_keyed_state.by_key import ByKey, needed_time, waited

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic

_MICROSECOND = timedelta(microseconds=1)
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


class RatesOptions(Options):
    """Options of `rates`."""

    by: list[str] = option(
        list,
        description="The key columns; when left out, all rows are one key's.",
        example=["card"],
    )
    value: str | None = option(
        None, description="The column with the number that is looked at.", example="cents"
    )
    half_life: PositiveDuration = option(
        description="After which time a row counts half as much.", example="10 minutes"
    )
    columns: dict[str, Literal["rate", "mean", "deviation", "zscore"]] = option(
        min_length=1,
        description="What is added to each row, by column: `rate`, the events of its key per second; "
        "`mean` and `deviation` (standard) of the value; `zscore`, by how many deviations it is from the "
        "mean. All of the rows of the key before it, newer ones counting more.",
        example={"per_second": "rate", "unusual": "zscore"},
    )


class Rates(ByKey):
    """Adds to each row what its key was like before it, once the watermark has passed it."""

    options: RatesOptions
    capabilities = OperatorCapabilities(passes_ids=True)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options = inputs.only, self.options
        self.key_columns(given)
        wanted = set(options.columns.values()) - {"rate"}
        if wanted and options.value is None:
            raise OptionError(f"{min(wanted)} is of a `value`", option="value")
        if options.value is not None:
            kind = find_column(given.columns, options.value, "value").type
            if kind is not None and not kind.startswith(_NUMBERS):
                raise OptionError(f"{options.value} is {kind.upper()}, no number", option="value")
        check_names(options.columns, "columns")
        for name in options.columns:
            if given.column(name) is not None:
                raise OptionError(f"the name {name!r} is taken", option="columns")
        columns = [*given.columns, *(Column(name, "double") for name in options.columns)]
        return replace(given.with_columns(columns), event_time=waited(needed_time(given)))

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        found = super().state(inputs)
        shaped_by = {**found.shaped_by, "columns": list(inputs.only.names)}
        return replace(found, shaped_by=shaped_by, gains=frozenset({"columns"}), waits=True)

    def holds(self, inputs: Inputs[Shape]) -> timedelta:
        return _MICROSECOND

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_windows.rates_logic import RatesLogic

        value, given = self.options.value, inputs.only.columns
        return RatesLogic(
            rows["input"],
            time=event_time(inputs.only) or "",
            value=None if value is None else find_column(given, value, "value").name,
            half_life=self.options.half_life // _MICROSECOND,
            columns=self.options.columns,
        )
