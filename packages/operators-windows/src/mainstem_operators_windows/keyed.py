"""What the operators with state by key share: columns as options name them, and event time."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem import EventTime, OptionError, Shape, watermark_hint
from mainstem.columns import find_column, quoted


def key_of(shape: Shape, names: Iterable[str]) -> list[str]:
    """Return the SQL of a key; one for all rows where there are no columns.

    Raises:
        OptionError: a column is not there.
    """
    return [quoted(find_column(shape.columns, name, "by").name) for name in names] or ["1"]


def time_of(shape: Shape) -> EventTime:
    """Return the event time of a stream.

    Raises:
        OptionError: it has none.
    """
    if shape.event_time is None:
        raise OptionError("the input has no event time", hint=watermark_hint(shape))
    return shape.event_time


def waited(time: EventTime) -> EventTime:
    """Return the event time of rows that come out when the watermark has passed them."""
    return EventTime(time.column, time.delay * 0, punctual=True, passed=True, ends=time.ends)
