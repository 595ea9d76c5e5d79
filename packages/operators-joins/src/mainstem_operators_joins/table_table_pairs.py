"""Two tables with the same key, joined: the logic."""

from __future__ import annotations

from typing import Literal

import polars as pl
from mainstem_keyed_state.changes import DELETED, SEQUENCE, emptied, newest, replaced, valid
from mainstem_keyed_state.logic import KEY, MAIN, Done, Logic, Step, Table

from mainstem_operators_joins.table_table_sides import (
    CHANGE,
    LEFT_SEQUENCE,
    RETRACTS,
    RIGHT_SEQUENCE,
    SEEN,
    changes,
    effective,
)

LEFT, RIGHT = "left", "right"
#: Outputs beside the main one, for each side.
LATE, REJECTED = "late", "rejected"


class Pairs(Logic):
    """Joins two tables whose keys are the same: each key has at most one row on each side.

    A change's version is the left sequence, then the right one. Neither ever falls, and each
    change raises one of them, so versions of a key only grow, however the input was cut.

    Args:
        left: the columns of the left table, by names that the right has not.
        right: those of the right table.
        left_sequence: the type of the left sequence.
        right_sequence: that of the right one.
        join: which keys have a row.
    """

    def __init__(
        self,
        left: pl.Schema,
        right: pl.Schema,
        left_sequence: pl.DataType,
        right_sequence: pl.DataType,
        join: Literal["inner", "left", "full"],
    ) -> None:
        self._join = join
        self._columns = {LEFT: left, RIGHT: right}
        self.ports = {
            LEFT: pl.Schema({**left, SEQUENCE: left_sequence, DELETED: pl.Boolean()}),
            RIGHT: pl.Schema({**right, SEQUENCE: right_sequence, DELETED: pl.Boolean()}),
        }
        self.tables = {side: Table(columns) for side, columns in self.ports.items()}
        joined = {
            **left,
            **right,
            CHANGE: pl.String(),
            LEFT_SEQUENCE: left_sequence,
            RIGHT_SEQUENCE: right_sequence,
            RETRACTS: pl.Boolean(),
        }
        self.outputs = {
            MAIN: pl.Schema(joined),
            **{
                f"{side}_{output}": columns
                for side, columns in self.ports.items()
                for output in (LATE, REJECTED)
            },
        }

    def step(self, step: Step) -> Done:
        """Take each side's newest changes, and tell how the joined rows of their keys change."""
        outputs: dict[str, pl.DataFrame] = {}
        before = {side: step.state[side] for side in (LEFT, RIGHT)}
        after, touched = {}, []
        changed = {}
        for side in (LEFT, RIGHT):
            rows, outputs[f"{side}_{REJECTED}"] = valid(step.rows[side])
            new, outputs[f"{side}_{LATE}"] = newest(rows, before[side])
            after[side] = replaced(before[side], emptied(new, self._columns[side].names()))
            touched.append(effective(new, before[side]))
            if not new.is_empty():
                changed[side] = after[side]
        keys = pl.concat(touched).unique()
        made = changes(self._joined(before, keys), self._joined(after, keys), [KEY])
        outputs[MAIN] = made.select(self.outputs[MAIN].names())
        return Done({name: _without_key(rows) for name, rows in outputs.items()}, changed)

    def _joined(self, state: dict[str, pl.DataFrame], keys: pl.DataFrame) -> pl.DataFrame:
        """Return what is known of some keys, as joined rows."""
        left, right = (
            state[side]
            .join(keys, on=KEY, how="semi")
            .rename({SEQUENCE: sequence, DELETED: f"__{side}"})
            for side, sequence in ((LEFT, LEFT_SEQUENCE), (RIGHT, RIGHT_SEQUENCE))
        )
        on_left, on_right = ((~pl.col(f"__{s}")).fill_null(value=False) for s in (LEFT, RIGHT))
        seen = {"inner": on_left & on_right, "left": on_left, "full": on_left | on_right}
        return (
            left.join(right, on=KEY, how="full", coalesce=True)
            .with_columns(seen[self._join].alias(SEEN), pl.lit(False).alias(RETRACTS))
            .drop(f"__{LEFT}", f"__{RIGHT}")
        )


def _without_key(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.drop(KEY, strict=False)
