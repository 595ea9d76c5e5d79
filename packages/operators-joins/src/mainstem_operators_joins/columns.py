"""Columns as options name them."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem import OptionError, Shape
from mainstem.errors import nearest


def pairs(on: list[str] | dict[str, str]) -> dict[str, str]:
    """Return what is equal, as a map from one side's column to the other's."""
    return dict(on) if isinstance(on, dict) else {name: name for name in on}


def check_columns(shape: Shape, names: Iterable[str], option: str, side: str) -> None:
    """Look whether a side has columns.

    Raises:
        OptionError: one is not there.
    """
    for name in names:
        if shape.column(name) is None:
            hint = nearest(name, shape.names) or f"Columns: {', '.join(shape.names)}."
            raise OptionError(f"the {side} has no column {name!r}", option=option, hint=hint)


def exact(shape: Shape, name: str) -> str:
    """Return a column's name as the shape has it; options may have it in other case."""
    column = shape.column(name)
    return name if column is None else column.name


def time_column(shape: Shape) -> str | None:
    """Return the name of the event-time column, as the shape has it, or None."""
    return None if shape.event_time is None else exact(shape, shape.event_time.column)
