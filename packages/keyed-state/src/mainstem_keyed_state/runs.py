"""What stands before and behind a row among those of its key, in frames that have these together.

Polars' `over` shifts and numbers group by group: with as many keys as rows that takes some fifteen times
as long as these, which go through whole columns. Aggregates (`max`, `sum`) it does as fast.
"""

from __future__ import annotations

import polars as pl

from mainstem_keyed_state.logic import KEY


def begins(*by: str) -> pl.Expr:
    """Return whether a row is the first of those that are alike and stand together.

    Args:
        by: the columns in which they are alike, nulls too; the key where none are given.
    """
    other = (pl.col(name).ne_missing(pl.col(name).shift(1)) for name in by or (KEY,))
    return pl.any_horizontal(pl.int_range(pl.len()) == 0, *other)


def before(value: pl.Expr, *by: str) -> pl.Expr:
    """Return the value of the row before among those that are alike; null for the first."""
    return pl.when(~begins(*by)).then(value.shift(1))


def behind(value: pl.Expr, *by: str) -> pl.Expr:
    """Return the value of the row behind among those that are alike; null for the last."""
    last = begins(*by).shift(-1, fill_value=True)
    return pl.when(~last).then(value.shift(-1))


def place(*by: str) -> pl.Expr:
    """Return a row's number among those that are alike, from 0."""
    row = pl.int_range(pl.len(), dtype=pl.Int64())
    return row - first(row, *by)


def total(value: pl.Expr, *by: str) -> pl.Expr:
    """Return the sum of a row's value and those before it among the rows that are alike.

    Args:
        value: whole numbers, none of them null.
    """
    summed = value.cast(pl.Int64).cum_sum()
    return summed - first(summed - value, *by)


def most(value: pl.Expr, *by: str) -> pl.Expr:
    """Return the greatest of a row's value and those before it among the rows that are alike.

    Args:
        value: none of them null.
    """
    order = value.rank("dense").cast(pl.Int64)
    # What comes later among all rows counts for more than any value before it.
    beyond = begins(*by).cast(pl.Int64).cum_sum() * pl.len().cast(pl.Int64)
    greatest = (order + beyond).cum_max() - beyond
    return value.unique().sort().gather(greatest - 1)


def first(value: pl.Expr, *by: str) -> pl.Expr:
    """Return the value of the first of the rows that are alike.

    Args:
        value: none of them null.
    """
    return pl.when(begins(*by)).then(value).forward_fill()
