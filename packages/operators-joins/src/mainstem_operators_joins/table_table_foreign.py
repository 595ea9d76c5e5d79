"""Many rows of a left table that refer to one of a right table, joined: two steps, one after the other.

A reference can change, and the row it meant before lives elsewhere: under another key, in another task.
So the first step, by the left table's own key, remembers to what each row refers, and turns a change
into "gone from there" and "now here". The second, by what is referred to, keeps the rows of both tables
and joins them. Of one batch each left row has at most one message for a key of the second step, and after
it is under one such key alone; so what the second step tells of a row in one batch is either one change
of that row at one place, or a delete at the old place and an insert at the new one.

A change's version is the left sequence, then the right one. A move raises the left sequence, and where
the reference stays the right sequence only grows: versions of a row grow, though no place knows
what another has told. The delete of a move has the new left sequence and no right part, so that
it stands before the insert.
"""

from __future__ import annotations

from typing import Literal

import polars as pl
from mainstem_keyed_state.changes import DELETED, SEQUENCE, emptied, newest, replaced, valid
from mainstem_keyed_state.logic import KEY, MAIN, Done, Logic, Step, Table

from mainstem_operators_joins.table_table_pairs import LATE, LEFT, REJECTED, RIGHT
from mainstem_operators_joins.table_table_sides import (
    CHANGE,
    LEFT_SEQUENCE,
    RETRACTS,
    RIGHT_SEQUENCE,
    SEEN,
    changes,
    effective,
)

#: What a left row refers to, as bytes; null if to nothing that could ever be there.
REFERENCE = "_reference"
#: A left row's own key, as bytes.
ROW = "_row"
#: What a message of the first step says.
WHAT = "_what"
PUT, GONE = "put", "gone"


class References(Logic):
    """The first step, by the left table's key: remembers to what each row refers.

    Args:
        left: the columns of the left table.
        sequence: the type of its sequence.
    """

    def __init__(self, left: pl.Schema, sequence: pl.DataType) -> None:
        self._left = left
        known = {SEQUENCE: sequence, DELETED: pl.Boolean(), REFERENCE: pl.Binary()}
        self.ports = {LEFT: pl.Schema({**left, **known})}
        self.tables = {"references": Table(pl.Schema(known))}
        self.outputs = {MAIN: _messages(left, sequence)}

    def step(self, step: Step) -> Done:
        """Turn each row's newest change into messages for the places it concerns."""
        state = step.state["references"]
        rows, rejected = valid(step.rows[LEFT])
        new, late = newest(rows, state)
        reference = pl.when(~pl.col(DELETED)).then(REFERENCE).alias(REFERENCE)
        new = new.with_columns(reference)
        was = new.select(KEY, SEQUENCE, REFERENCE).join(
            state.select(KEY, pl.col(REFERENCE).alias("__was")), on=KEY, how="inner"
        )
        moved = pl.col("__was").is_not_null() & pl.col("__was").ne_missing(pl.col(REFERENCE))
        gone = was.filter(moved).select(
            KEY, SEQUENCE, pl.col("__was").alias(REFERENCE), pl.lit(True).alias(DELETED)
        )
        nowhere = pl.lit(None, pl.Binary()).alias(REFERENCE)
        messages = [
            _message(new.filter(pl.col(REFERENCE).is_not_null()), PUT),
            _message(gone, GONE),
            _message(late.with_columns(nowhere), LATE),
            _message(rejected.with_columns(nowhere), REJECTED),
        ]
        wanted = self.outputs[MAIN]
        made = pl.concat([m for m in messages if not m.is_empty()] or messages, how="diagonal")
        missing = [
            pl.lit(None, kind).alias(n) for n, kind in wanted.items() if n not in made.columns
        ]
        return Done(
            {MAIN: made.with_columns(missing).select(wanted.names())},
            {} if new.is_empty() else {"references": replaced(state, new)},
        )


def _messages(left: pl.Schema, sequence: pl.DataType) -> pl.Schema:
    """Return the columns of what the first step says to the second."""
    known = {SEQUENCE: sequence, DELETED: pl.Boolean(), REFERENCE: pl.Binary()}
    return pl.Schema({**left, **known, ROW: pl.Binary(), WHAT: pl.String()})


def _message(rows: pl.DataFrame, what: str) -> pl.DataFrame:
    return rows.with_columns(pl.lit(what).alias(WHAT)).rename({KEY: ROW})


class Dependants(Logic):
    """The second step, by what is referred to: keeps left rows beside the right row they mean.

    Args:
        left: the columns of the left table, by names that the right has not.
        right: those of the right table.
        left_sequence: the type of the left sequence.
        right_sequence: that of the right one.
        join: whether left rows without a right one are rows of the result.
    """

    def __init__(
        self,
        left: pl.Schema,
        right: pl.Schema,
        left_sequence: pl.DataType,
        right_sequence: pl.DataType,
        join: Literal["inner", "left"],
    ) -> None:
        self._join = join
        self._right = right
        self.ports = {
            LEFT: _messages(left, left_sequence),
            RIGHT: pl.Schema({**right, SEQUENCE: right_sequence, DELETED: pl.Boolean()}),
        }
        self.tables = {
            LEFT: Table(pl.Schema({ROW: pl.Binary(), **left, SEQUENCE: left_sequence})),
            RIGHT: Table(self.ports[RIGHT]),
        }
        joined = {
            **left,
            **right,
            CHANGE: pl.String(),
            LEFT_SEQUENCE: left_sequence,
            RIGHT_SEQUENCE: right_sequence,
            RETRACTS: pl.Boolean(),
        }
        told = {LEFT: pl.Schema({**left, SEQUENCE: left_sequence, DELETED: pl.Boolean()})}
        told[RIGHT] = self.ports[RIGHT]
        self.outputs = {
            MAIN: pl.Schema(joined),
            **{f"{side}_{o}": told[side] for side in (LEFT, RIGHT) for o in (LATE, REJECTED)},
        }

    def step(self, step: Step) -> Done:
        """Move left rows in and out, take the newest right rows, and tell what changes."""
        by = [KEY, ROW]
        messages, lefts, rights = step.rows[LEFT], step.state[LEFT], step.state[RIGHT]
        said = messages.partition_by(WHAT, as_dict=True)
        put, gone, left_late, left_refused = (
            said.get((what,), messages.clear()) for what in (PUT, GONE, LATE, REJECTED)
        )
        rows, refused = valid(step.rows[RIGHT])
        new, late = newest(rows, rights)

        moved = pl.concat([put.select(by), gone.select(by)])
        mark = moved.with_columns(pl.lit(True).alias("__moved"))
        marked = lefts.join(mark, on=by, how="left", maintain_order="left")
        still = marked.filter(pl.col("__moved").is_null()).drop("__moved")
        were = marked.filter("__moved").drop("__moved")
        are = put.select(lefts.columns)
        rights_after = replaced(rights, emptied(new, self._right.names()))
        stay = (
            still.join(effective(new, rights), on=KEY, how="semi") if new.height else still.clear()
        )

        after = self._joined(pl.concat([stay, are]), rights_after)
        taken = gone.select(
            *by,
            pl.col(SEQUENCE).alias(LEFT_SEQUENCE),
            pl.lit(False).alias(SEEN),
            pl.lit(True).alias(RETRACTS),
        )
        made = changes(
            self._joined(pl.concat([stay, were]), rights),
            pl.concat([after, taken], how="diagonal") if taken.height else after,
            by,
        )
        found = {
            MAIN: made,
            f"{LEFT}_{LATE}": left_late,
            f"{LEFT}_{REJECTED}": left_refused,
            f"{RIGHT}_{LATE}": late,
            f"{RIGHT}_{REJECTED}": refused,
        }
        changed = {}
        if not moved.is_empty():
            changed[LEFT] = pl.concat([still, are])
        if not new.is_empty():
            changed[RIGHT] = rights_after
        return Done({n: rows.select(self.outputs[n].names()) for n, rows in found.items()}, changed)

    def _joined(self, lefts: pl.DataFrame, rights: pl.DataFrame) -> pl.DataFrame:
        """Return left rows with what is known of the right row that they mean."""
        known = rights.rename({SEQUENCE: RIGHT_SEQUENCE, DELETED: "__gone"})
        there = pl.lit(True) if self._join == "left" else (~pl.col("__gone")).fill_null(value=False)
        return (
            lefts.rename({SEQUENCE: LEFT_SEQUENCE})
            .join(known, on=KEY, how="left", maintain_order="left")
            .with_columns(there.alias(SEEN), pl.lit(False).alias(RETRACTS))
            .drop("__gone")
        )
