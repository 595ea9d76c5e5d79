"""What the operators with state by key share: keys as options name them, and event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mainstem import EVENTS, EventTime, Inputs, OptionError, Shape, watermark_hint
from mainstem.columns import find_column, quoted

from mainstem_keyed_state.operator import KeyedOperator, event_time, lacking


class _By(Protocol):
    by: list[str]


class ByKey(KeyedOperator):
    """An operator whose option `by` names the key; null equals null. Rows without a time are refused.

    Late rows come out of `late`.
    """

    options: _By  # type: ignore[assignment]
    ports = {"input": EVENTS}
    nulls_equal = True

    def key_columns(self, given: Shape) -> list[str]:
        """Return the columns of the key, as the stream writes them.

        Raises:
            OptionError: one is not there.
        """
        return [find_column(given.columns, name, "by").name for name in self.options.by]

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        """Return the key: one for all rows where `by` is empty."""
        return {"input": [quoted(name) for name in self.key_columns(inputs.only)] or ["1"]}

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        return {"input": lacking(filter(None, [event_time(inputs.only)]))}

    def in_time(self, inputs: Inputs[Shape]) -> str | None:
        return "input"


def needed_time(shape: Shape) -> EventTime:
    """Return the event time of a stream.

    Raises:
        OptionError: it has none.
    """
    if shape.event_time is None:
        raise OptionError("the input has no event time", hint=watermark_hint(shape))
    return shape.event_time


def waited(time: EventTime) -> EventTime:
    """Return the event time of rows that come out when the watermark has passed them."""
    return EventTime(
        time.column,
        time.delay * 0,
        punctual=True,
        passed=True,
        ends=time.ends,
        behind=time.behind,
    )
