"""Times in frames, compared with the watermark."""

from __future__ import annotations

import polars as pl

#: The type of every time: Spark's TIMESTAMP.
TIME = pl.Datetime("us", "UTC")


def time_of(micros: int) -> pl.Expr:
    """Return a time, given in microseconds since 1970."""
    return pl.lit(micros, pl.Int64()).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def passed(column: str, micros: int | None) -> pl.Expr:
    """Return whether a time lies in a column that is not after another one; a null never does."""
    if micros is None:
        return pl.lit(value=False)
    return (pl.col(column) <= time_of(micros)).fill_null(value=False)
