"""Operator `clock`: the time of events by a clock that is right, where devices' own are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from mainstem import (
    EVENTS,
    Inputs,
    OperatorCapabilities,
    OptionError,
    Options,
    PositiveDuration,
    Shape,
    StateFacts,
    option,
)
from mainstem.columns import Column, check_names, find_column, quoted
from mainstem_keyed_state import KeyedOperator, lacking

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic

_MICROSECOND = timedelta(microseconds=1)


class ClockOptions(Options):
    """Options of `clock`."""

    by: list[str] = option(
        min_length=1,
        description="The columns that tell whose clock it is.",
        example=["device"],
    )
    event: str = option(
        description="The TIMESTAMP column with the event's time, by the device's clock.",
        example="measured",
    )
    sent: str = option(
        description="The TIMESTAMP column with the time of sending, by the device's clock.",
        example="sent",
    )
    received: str = option(
        description="The TIMESTAMP column with the time of receiving, by the server's clock.",
        example="received",
    )
    half_life: PositiveDuration | None = option(
        None,
        description="What the offset of a clock is smoothed by: after which time, by the server's clock, "
        "one that was seen counts half as much. When left out, each row's own counts alone.",
        example="10 minutes",
    )
    corrected: str = option(
        "corrected", min_length=1, description="The name of the column with the corrected time."
    )
    offset: str = option(
        "clock_offset_ms",
        min_length=1,
        description="The name of the column with the offset: how far the device's clock is behind the "
        "server's, in milliseconds.",
    )


class Clock(KeyedOperator):
    """Corrects the time of events by the difference of two clocks, seen when events are sent.

    How long a message takes to arrive counts as an offset too; it is short beside clocks that are wrong.
    """

    options: ClockOptions
    ports = {"input": EVENTS}
    nulls_equal = True
    capabilities = OperatorCapabilities(passes_ids=True, batch_invariant=False)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options = inputs.only, self.options
        for name in options.by:
            find_column(given.columns, name, "by")
        for name in ("event", "sent", "received"):
            found = find_column(given.columns, getattr(options, name), name)
            if found.type not in (None, "timestamp"):
                raise OptionError(f"{found.ddl} is no TIMESTAMP", option=name)
        added = {"corrected": options.corrected, "offset": options.offset}
        check_names(list(added.values()), "offset")
        for key, name in added.items():
            if given.column(name) is not None:
                raise OptionError(f"the name {name!r} is taken", option=key)
        columns = [Column(options.corrected, "timestamp"), Column(options.offset, "bigint")]
        return given.with_columns([*given.columns, *columns])

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        given = inputs.only.columns
        return {"input": [quoted(find_column(given, name, "by").name) for name in self.options.by]}

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        return {"input": lacking(self._times(inputs.only))}

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        return replace(super().state(inputs), grows="the offset of every clock is kept.")

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_windows.clock_logic import ClockLogic

        event, sent, received = self._times(inputs.only)
        half_life = self.options.half_life
        return ClockLogic(
            rows["input"],
            event=event,
            sent=sent,
            received=received,
            half_life=None if half_life is None else half_life // _MICROSECOND,
            corrected=self.options.corrected,
            offset=self.options.offset,
        )

    def _times(self, given: Shape) -> list[str]:
        wanted = (self.options.event, self.options.sent, self.options.received)
        return [find_column(given.columns, name, "event").name for name in wanted]
