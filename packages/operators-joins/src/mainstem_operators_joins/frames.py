"""What the logics of this package share: reserved columns, times, and rows that can't be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from mainstem import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from mainstem.columns import quoted

__all__ = [
    "CHANGE_TYPE",
    "COMMIT_TIMESTAMP",
    "COMMIT_VERSION",
    "DELETE",
    "IDENTITY",
    "PAYLOAD",
    "TIME",
    "passed",
    "payload",
    "refusals",
    "refused",
    "time_of",
    "with_columns",
]

DELETE = "delete"
#: On rows of a port: the row as JSON if it can't be used, for one of the columns that it needs is null;
#: null on all others.
PAYLOAD = "_payload"
#: The reserved column that tells a row from every other, where it is made.
IDENTITY = "_id"
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


def payload(needs: Sequence[str], columns: Sequence[str], wrong: str = "") -> str:
    """Return the SQL of the column `PAYLOAD`.

    Args:
        needs: the columns that must not be null.
        columns: those that are shown of a row that can't be used.
        wrong: SQL for what else makes a row one that can't be used; never null.
    """
    found = [*(f"{quoted(name)} IS NULL" for name in needs), *([wrong] if wrong else [])]
    if not found:
        return f"CAST(NULL AS BINARY) AS {PAYLOAD}"
    missing = " OR ".join(found)
    row = f"to_json(struct({', '.join(map(quoted, columns))}))"
    return f"IF({missing}, CAST({row} AS BINARY), NULL) AS {PAYLOAD}"


def refusals(stream: pl.Schema) -> pl.Schema:
    """Return the columns of `rejected`, given those of the rows that come in."""
    identity = {IDENTITY: stream[IDENTITY]} if IDENTITY in stream else {}
    return pl.Schema({"reason": pl.String(), "payload": pl.Binary(), **identity})


def refused(
    rows: pl.DataFrame, needs: Sequence[str], wrong: pl.Expr | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of a port that can be used, and the others as rows of `rejected`.

    Args:
        needs: the columns that must not be null; the first that is one is the reason.
        wrong: the reason where none is one, as text.
    """
    told = refusals(rows.schema)
    if not needs or rows[PAYLOAD].null_count() == rows.height:
        return rows, pl.DataFrame(schema=told)
    nulls = [
        pl.when(pl.col(name).is_null()).then(pl.lit(f"{_shown(name)} is null")) for name in needs
    ]
    reason = pl.coalesce(*nulls, pl.lit("") if wrong is None else wrong)
    others = rows.filter(pl.col(PAYLOAD).is_not_null()).with_columns(
        reason.alias("reason"), pl.col(PAYLOAD).alias("payload")
    )
    return rows.filter(pl.col(PAYLOAD).is_null()), others.select(list(told))


def _shown(name: str) -> str:
    return "the sequence" if name == COMMIT_VERSION else name
