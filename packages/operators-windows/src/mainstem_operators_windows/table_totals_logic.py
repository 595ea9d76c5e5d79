"""What `aggregate` does with the changes of a table, as frames: two steps, one after the other.

The first, by the table's key, remembers each row, and turns a change into the row that is taken back and
the row that is added. The second, by the group, adds and subtracts them. So totals are right under
updates and deletes, also where a row moves from one group to another, whatever comes twice or late.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from mainstem import CHANGE_TYPE
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.changes import (
    DELETED,
    SEQUENCE,
    emptied,
    newest,
    replaced,
    valid,
)

from mainstem_operators_windows.totals.accumulator import Accumulator, input_name

#: Of the messages of the first step: how a row counts, and what else a message is.
WEIGHT, WHAT = "_weight", "_what"
LATE, REFUSED = "late_changes", "rejected"

_ROWS, _GROUPS, _VALUES = "rows", "groups", "values"
_NUMBER = "__number"


class RowsLogic(Logic):
    """The first step: what each change takes back, and what it adds.

    Of several changes of a key in a batch the newest counts. One that is no newer than what is known goes
    on as `LATE`, one without key or sequence as `REFUSED`.

    Args:
        rows: the columns of a change: those that are totalled and grouped by, `SEQUENCE` and `DELETED`.
    """

    def __init__(self, rows: pl.Schema) -> None:
        self._columns = [name for name in rows if name not in (SEQUENCE, DELETED)]
        self.ports = {"input": rows}
        self.tables = {_ROWS: Table(rows)}
        self.outputs = {MAIN: pl.Schema({**rows, WEIGHT: pl.Int8(), WHAT: pl.String()})}

    def step(self, step: Step) -> Done:
        """Tell what changes, and remember it."""
        state = step.state[_ROWS]
        rows, refused = valid(step.rows["input"].select(KEY, *self.ports["input"]))
        if rows.is_empty() and refused.is_empty():
            return Done()
        fresh, late = newest(rows, state)
        before = state.join(fresh.select(KEY), on=KEY, how="semi", maintain_order="left")
        told = [
            _message(before.filter(~pl.col(DELETED)), -1),
            _message(fresh.filter(~pl.col(DELETED)), 1),
            _message(late, 0, LATE),
            _message(refused, 0, REFUSED),
        ]
        columns = list(self.outputs[MAIN])
        messages = pl.concat([each.select(columns) for each in told])
        return Done({MAIN: messages}, {_ROWS: replaced(state, emptied(fresh, self._columns))})


def _message(rows: pl.DataFrame, weight: int, what: str | None = None) -> pl.DataFrame:
    return rows.with_columns(
        pl.lit(weight, pl.Int8()).alias(WEIGHT), pl.lit(what, pl.String()).alias(WHAT)
    )


class TableTotalsLogic(Logic):
    """The second step: totals of groups, as they change.

    What can be added and subtracted is kept as its sums; of the rest the values are kept, each with how
    often it is there.

    Args:
        rows: the columns of the first step's messages.
        by: the columns of the key.
        accumulators: what is totalled; weighted.
        asides: the columns of a message that is late or refused.
    """

    def __init__(
        self,
        rows: pl.Schema,
        by: Sequence[str],
        accumulators: Sequence[Accumulator],
        asides: Sequence[str],
    ) -> None:
        self._by = list(by)
        self._sums = [each for each in accumulators if each.additive]
        self._others = [each for each in accumulators if not each.additive]
        self._accumulators = list(accumulators)
        keys = {name: rows[name] for name in by}
        parts = {name: kind for each in self._sums for name, kind in each.parts.items()}
        told = {name: kind for each in accumulators for name, kind in each.told.items()}
        aside = pl.Schema({name: rows[name] for name in asides})
        self._told = list(told)
        self._of = {
            name: rows[name]
            for each in self._others
            for place in range(len(each.kinds))
            if (name := input_name(each.number, place)) in rows
        }
        self.ports = {"input": rows}
        self.outputs = {
            MAIN: pl.Schema({**keys, **told, CHANGE_TYPE: pl.String()}),
            LATE: aside,
            REFUSED: aside,
        }
        self.tables = {_GROUPS: Table(pl.Schema({**keys, **parts, _NUMBER: pl.Int64()}))}
        if self._others:
            self.tables[_VALUES] = Table(pl.Schema({**self._of, _NUMBER: pl.Int64()}))

    def step(self, step: Step) -> Done:
        """Add and subtract rows, and tell which totals have changed."""
        messages = step.rows["input"]
        outputs = {
            name: messages.filter(pl.col(WHAT) == name).select(list(self.outputs[name]))
            for name in (LATE, REFUSED)
        }
        rows = messages.filter(pl.col(WHAT).is_null())
        outputs = {name: frame for name, frame in outputs.items() if frame.height}
        if rows.is_empty():
            return Done(outputs)
        groups = step.state[_GROUPS]
        touched = rows.select(KEY).unique()
        others = groups.join(touched, on=KEY, how="anti", maintain_order="left")
        before = groups.join(touched, on=KEY, how="semi", maintain_order="left")
        after = self._summed(before, rows)
        state = {}
        was = now = None
        if self._others:
            values = step.state[_VALUES]
            elsewhere = values.join(touched, on=KEY, how="anti", maintain_order="left")
            was = values.join(touched, on=KEY, how="semi", maintain_order="left")
            now = self._counted(was, rows)
            state[_VALUES] = pl.concat([elsewhere, now.select(values.columns)])
        changes = self._changes(self._shown(before, was), self._shown(after, now))
        if changes.height:
            outputs[MAIN] = changes
        # A group may have fewer rows than none for a while, if a change is told before the one before it.
        kept = after.filter(pl.col(_NUMBER) != 0)
        state[_GROUPS] = pl.concat([others, kept.select(groups.columns)])
        return Done(outputs, state)

    def _summed(self, before: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        weight = pl.col(WEIGHT).cast(pl.Int64)
        lifted = [part for each in self._sums for part in each.lifted(weight)]
        new = rows.select(KEY, *self._by, *lifted, weight.alias(_NUMBER))
        merged = [part for each in self._sums for part in each.merged()]
        return (
            pl.concat([before, new.select(before.columns)])
            .group_by(KEY, maintain_order=True)
            .agg(*(pl.col(name).first() for name in self._by), *merged, pl.col(_NUMBER).sum())
        )

    def _counted(self, before: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """Return which values there are of each group, and how often."""
        new = rows.select(KEY, *self._of, pl.col(WEIGHT).cast(pl.Int64).alias(_NUMBER))
        return (
            pl.concat([before, new.select(before.columns)])
            .group_by(KEY, *self._of, maintain_order=True)
            .agg(pl.col(_NUMBER).sum())
            .filter(pl.col(_NUMBER) != 0)
        )

    def _shown(self, groups: pl.DataFrame, values: pl.DataFrame | None) -> pl.DataFrame:
        """Return the totals of groups that have rows."""
        groups = groups.filter(pl.col(_NUMBER) > 0)
        if values is not None:
            one = pl.lit(1, pl.Int64())
            each = values.filter(pl.col(_NUMBER) > 0)
            times = pl.int_ranges(pl.col(_NUMBER)).alias("__time")
            if not all(accumulator.once for accumulator in self._others):
                each = each.with_columns(times).explode("__time")
            lifted = [part for a in self._others for part in a.lifted(one)]
            merged = [part for a in self._others for part in a.merged()]
            made = each.select(KEY, *lifted).group_by(KEY, maintain_order=True).agg(*merged)
            groups = groups.join(made, on=KEY, how="left", maintain_order="left")
        settled = [part for each in self._accumulators for part in each.settled()]
        return groups.select(KEY, *self._by, *settled)

    def _changes(self, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
        """Return what turns totals into others."""
        same = before.join(
            after, on=[KEY, *self._told], how="semi", nulls_equal=True, maintain_order="left"
        ).select(KEY)
        before = before.join(same, on=KEY, how="anti", maintain_order="left")
        after = after.join(same, on=KEY, how="anti", maintain_order="left")

        def with_kind(rows: pl.DataFrame, others: pl.DataFrame, yes: str, no: str) -> pl.DataFrame:
            there = pl.col(KEY).is_in(others.get_column(KEY).implode())
            kind = pl.when(there).then(pl.lit(yes)).otherwise(pl.lit(no)).alias(CHANGE_TYPE)
            return rows.with_columns(kind).drop(KEY)

        return pl.concat(
            [
                with_kind(before, after, "update_preimage", "delete"),
                with_kind(after, before, "update_postimage", "insert"),
            ]
        ).select(list(self.outputs[MAIN]))
