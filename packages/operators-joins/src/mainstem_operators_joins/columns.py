"""Columns as options name them."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem import OptionError, Shape
from mainstem.columns import Column, check_names, find_column

#: On the rows that the logic of `table` is given: whether the row deletes its key.
GONE = "_gone"


def pairs(on: list[str] | dict[str, str]) -> dict[str, str]:
    """Return what is equal, as a map from one side's column to the other's."""
    return dict(on) if isinstance(on, dict) else {name: name for name in on}


def check_columns(shape: Shape, names: Iterable[str], option: str, whose: str) -> None:
    """Look whether a side has columns.

    Raises:
        OptionError: one is not there.
    """
    for name in names:
        find_column(shape.columns, name, option, whose=whose)


def taken_columns(
    take: list[str] | dict[str, str] | None,
    shape: Shape,
    whose: str,
    *,
    beside: Iterable[str],
    keys: Iterable[str],
) -> dict[str, Column]:
    """Return the columns of one side that go into the result, by their names there.

    Args:
        take: as the option has them; all but the keys when None.
        whose: the side, such as `the right table`.
        beside: the names that the result has already.
        keys: the side's columns that are equal to some of those.

    Raises:
        OptionError: a column is not there, or its name can't be had.
    """
    if take is None:
        left_out = {name.lower() for name in keys}
        take = [n for n in shape.names if n.lower() not in left_out and not n.startswith("_")]
    there = {name.lower() for name in beside}
    found = {}
    check_names(pairs(take), "take")
    for name, source in pairs(take).items():
        column = find_column(shape.columns, source, "take", whose=whose)
        if name.lower() in there:
            word = whose.split()[1]
            raise OptionError(
                f"the result would have two columns {name!r}",
                option="take",
                hint=f"Give that of {whose} another name: `take: {{{word}_{name}: {source}, ...}}`.",
            )
        there.add(name.lower())
        found[name] = column
    return found


def check_ordered(kind: str | None, whose: str, option: str | None = None) -> None:
    """Look whether values of a type have an order, as sequences need.

    Args:
        kind: the type, as Spark calls it; None where it is not known yet.
        whose: whose sequence it is.

    Raises:
        OptionError: they have none that is known here.
    """
    if kind is not None and kind.startswith(("struct", "array", "map", "variant")):
        raise OptionError(
            f"the sequence of {whose} is {kind.upper()}, whose values have no order here",
            option=option,
            hint="Make a number or a text of it by `select`, which orders as it does.",
        )
