"""Rows that wait until no earlier one can come: what the operators that go by the order of time share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from mainstem_keyed_state.logic import Table
from mainstem_keyed_state.times import TIME, passed

#: What tells rows of one time apart, where it is among the columns.
IDENTITY = "_id"
_DUE = "__due"


def order_of(time: str, rows: Mapping[str, pl.DataType]) -> list[str]:
    """Return the columns that rows of a key are ordered by: their time, and of one time their `_id`."""
    return [time, *(name for name in (IDENTITY,) if name in rows)]


def waiting_table(rows: Mapping[str, pl.DataType]) -> Table:
    """Return the table of rows that wait for their turn, apart from their keys."""
    return Table(pl.Schema({**rows, _DUE: TIME}), due=_DUE, queued=True)


def in_turn(
    rows: pl.DataFrame, waiting: pl.DataFrame, time: str, watermark: int | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows whose turn has come, in no order, and the new ones that wait.

    A row of the batch has its turn at once if a step above has held it back until the watermark passed
    it.

    Args:
        rows: new ones, with `KEY`.
        waiting: those of the table that are due; see `waiting_table`.
        time: the column of their time, never null.
    """
    # One of the watermark's own time is not late yet.
    due = (pl.col(time) + pl.duration(microseconds=1)).alias(_DUE)
    rows = rows.with_columns(due)
    over = passed(_DUE, watermark)
    ready = pl.concat([waiting.select(rows.columns), rows.filter(over)])
    return ready.drop(_DUE), rows.filter(~over)
