"""What the steps of a table-table join share: which changes are new, and what changes for readers.

A side's rows carry their sequence and whether the change deletes its key. State remembers the same of
each key, of a deleted one too: an older change must not bring it back.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from mainstem_keyed_state.logic import KEY

from mainstem_operators_joins.ties import in_order

SEQUENCE, DELETED = "_sequence", "_deleted"
#: Columns of a joined row: the kind of the change, and what its version is made of. A retraction says
#: that a row has gone elsewhere, or is no more: its version is the left sequence alone.
CHANGE, LEFT_SEQUENCE, RIGHT_SEQUENCE, RETRACTS = (
    "_change",
    "_left_sequence",
    "_right_sequence",
    "_retracts",
)
#: Whether a joined row is one of the result: it may be known for its sequences alone.
SEEN = "__seen"


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
        state: the side's state.
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


def effective(changed: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
    """Return the keys of the changes that a reader can see: not the deletion of what is not there."""
    if changed.is_empty():
        return changed.select(KEY)
    there = state.filter(~pl.col(DELETED)).select(KEY)
    seen = changed.filter(~pl.col(DELETED)).select(KEY)
    gone = changed.select(KEY).join(there, on=KEY, how="semi")
    return pl.concat([seen, gone]).unique()


def changes(before: pl.DataFrame, after: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return what turns joined rows into others: updates with both images, inserts and deletes.

    Args:
        before: rows as they were, with `by`, `SEEN`, and the other columns that `after` has.
        after: what has become of each of them, and new ones.
        by: what tells a row from the others.
    """
    keys = list(by)
    made = after.filter(SEEN).drop(SEEN)
    gone = before.filter(SEEN).drop(SEEN, LEFT_SEQUENCE, RIGHT_SEQUENCE, RETRACTS)
    if gone.is_empty():
        return made.with_columns(pl.lit("insert").alias(CHANGE))
    known = gone.select(*keys, pl.lit(True).alias("__known"))
    made = made.join(known, on=keys, how="left", maintain_order="left").with_columns(
        _either("__known", "update_postimage", "insert")
    )
    now = after.select(*keys, SEEN, LEFT_SEQUENCE, RIGHT_SEQUENCE, RETRACTS)
    gone = gone.join(now, on=keys, how="inner", maintain_order="left").with_columns(
        _either(SEEN, "update_preimage", "delete")
    )
    made = made.drop("__known")
    return pl.concat([gone.select(made.columns), made])


def _either(mark: str, yes: str, no: str) -> pl.Expr:
    return pl.when(mark).then(pl.lit(yes)).otherwise(pl.lit(no)).alias(CHANGE)
