"""What the logics of this package share: reserved columns, times, and rows that can't be used."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from mainstem import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from mainstem_keyed_state.times import TIME, passed, time_of

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


def with_columns(schema: pl.Schema, *more: Mapping[str, pl.DataType]) -> pl.Schema:
    """Return a schema with more columns at its end."""
    return pl.Schema([*schema.items(), *(pair for columns in more for pair in columns.items())])
