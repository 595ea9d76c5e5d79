"""What the steps of a table-table join share: what changes for readers."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from mainstem_keyed_state.changes import DELETED
from mainstem_keyed_state.logic import KEY

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
