"""What the logics of this package share: reserved columns, times, and rows that can't be used."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from mainstem import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION

__all__ = [
    "CHANGE_TYPE",
    "COMMIT_TIMESTAMP",
    "COMMIT_VERSION",
    "DELETE",
    "TIME",
    "passed",
    "time_of",
    "with_columns",
]

DELETE = "delete"
#: The type of every time: Spark's TIMESTAMP.
TIME = pl.Datetime("us", "UTC")


def with_columns(schema: pl.Schema, *more: Mapping[str, pl.DataType]) -> pl.Schema:
    """Return a schema with more columns at its end."""
    return pl.Schema([*schema.items(), *(pair for columns in more for pair in columns.items())])


def time_of(micros: int) -> pl.Expr:
    """Return a time, given in microseconds since 1970."""
    return pl.lit(micros, pl.Int64()).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def passed(column: str, micros: int | None) -> pl.Expr:
    """Return whether a time lies in a column that is not after another one; a null never does."""
    if micros is None:
        return pl.lit(value=False)
    return (pl.col(column) <= time_of(micros)).fill_null(value=False)
