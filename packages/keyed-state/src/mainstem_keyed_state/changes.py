"""Changes of a table, told apart by key and sequence: which of them are new, and which of several counts.

A row carries its sequence, and whether it deletes its key. State remembers the same of each key, of a
deleted one too: an older change must not bring it back.

Of several rows of one key and one sequence the same one counts everywhere: a row rather than a deletion;
of several of a kind the one whose values are greater, column by column, nulls least. A batch that is
worked on again has its rows in another order, so that must not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mainstem_keyed_state.logic import KEY

SEQUENCE, DELETED = "_sequence", "_deleted"


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


def valid(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split changes into those with key and sequence, and the others."""
    if not rows.get_column(KEY).null_count() and not rows.get_column(SEQUENCE).null_count():
        return rows, rows.clear()
    known = pl.col(KEY).is_not_null() & pl.col(SEQUENCE).is_not_null()
    return rows.filter(known), rows.filter(~known)


def newest(rows: pl.DataFrame, state: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split changes into those that take effect, one for a key, and those that come too late.

    Late is what is not newer than what the state has of its key, and a second copy of the newest. A
    change that is newer than the state but not the newest of its batch is in neither part: nobody
    ever sees the table between.

    Args:
        rows: changes that have a key and a sequence.
        state: what is known of each key.
    """
    if rows.is_empty():
        return rows, rows
    known = state.select(KEY, pl.col(SEQUENCE).alias("__known"))
    found = rows.join(known, on=KEY, how="left")
    fresh = pl.col("__known").is_null() | (pl.col(SEQUENCE) > pl.col("__known"))
    late = found.filter(~fresh).select(rows.columns)
    found = found.filter(fresh).select(rows.columns)
    if found.get_column(KEY).n_unique() == found.height:
        return found, late
    found = found.filter(pl.col(SEQUENCE) == pl.col(SEQUENCE).max().over(KEY))
    others = [name for name in found.columns if name not in (KEY, SEQUENCE, DELETED)]
    found = in_order(found, [KEY, SEQUENCE], DELETED, others)
    last = found.select(pl.col(KEY).is_last_distinct()).to_series()
    return found.filter(last), pl.concat([late, found.filter(~last)])


def replaced(state: pl.DataFrame, rows: pl.DataFrame, by: Sequence[str] = (KEY,)) -> pl.DataFrame:
    """Return a state with the rows of some keys in the place of those it had."""
    if rows.is_empty():
        return state
    kept = state.join(rows.select(by), on=list(by), how="anti", maintain_order="left")
    return pl.concat([kept, rows.select(state.columns)])


def emptied(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return changes with null columns where they delete: of those, state keeps the sequence alone."""
    if not rows.get_column(DELETED).any():
        return rows
    return rows.with_columns(pl.when(~pl.col(DELETED)).then(pl.col(n)).alias(n) for n in columns)
