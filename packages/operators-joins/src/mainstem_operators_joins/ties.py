"""Which of several rows counts that have one key and one sequence: the same rule in every operator.

A row rather than a deletion; of several of a kind the one whose values are greater, column by column,
nulls least. A batch that is worked on again has its rows in another order, so that must not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def in_order(
    rows: pl.DataFrame, by: Sequence[str], gone: str, values: Sequence[str]
) -> pl.DataFrame:
    """Return rows sorted, the one that counts last of those that are equal.

    Values are compared only among rows that nothing else tells apart: to sort all by them costs much.

    Args:
        by: the key and the sequence, which are never null.
        gone: whether a row is a deletion; never null.
        values: all other columns that tell one row from another.
    """
    order = [*by, ~pl.col(gone)]
    rows = rows.sort(order)
    like = pl.all_horizontal(pl.col(n) == pl.col(n).shift(1) for n in (*by, gone)).fill_null(
        value=False
    )
    tied = rows.select(like | like.shift(-1, fill_value=False)).to_series().arg_true()
    if tied.is_empty():
        return rows
    settled = rows[tied].select(pl.arg_sort_by([*order, *values])).to_series()
    places = pl.int_range(rows.height, dtype=pl.UInt32, eager=True)
    return rows[places.scatter(tied, tied.gather(settled))]
