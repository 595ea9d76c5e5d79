"""What the operator `table` does with the rows of a batch and what it remembers, as frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl
from mainstem_keyed_state import runs
from mainstem_keyed_state.changes import in_order
from mainstem_keyed_state.logic import KEY, MAIN, Done, Logic, Step, Table

from mainstem_operators_joins.columns import GONE
from mainstem_operators_joins.frames import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    TIME,
    passed,
    with_columns,
)

INPUT, LATE = "input", "late"
#: On the rows of `late`: why it changes nothing.
REASON = "_reason"
OLDER, DUPLICATE, NOTHING_THERE = "older", "duplicate", "nothing to delete"

_ROWS, _HISTORY = "rows", "history"
_DUE, _KNOWN, _BEFORE, _ORDER = "__due", "__known", "__before", "__order"
_PRE, _POST, _INSERT = "update_preimage", "update_postimage", "insert"


@dataclass(frozen=True)
class TableSettings:
    """How events become a table.

    Attributes:
        key: the columns of the table's key.
        sequence: the column that only grows for a key.
        time: the column that says when a change was made, or None.
        deletes_within: how long, by the watermark, a deletion is remembered after its time, in
            microseconds; None for ever.
        history_versions: how many of a key's former rows are kept; None for any number.
        history_within: how long a former row is kept after its time, in microseconds; None for ever.
        history: whether former rows are kept at all.
    """

    key: tuple[str, ...]
    sequence: str
    time: str | None
    deletes_within: int | None = None
    history: bool = False
    history_versions: int | None = None
    history_within: int | None = None


class TableLogic(Logic):
    """Takes the row with the greatest sequence as the row of its key; tells each change of it.

    What is remembered:

    - `rows`: of each key its row, or its deletion, so that an older row does not bring it back.
    - `history`, if asked for: rows and deletions that are no longer the newest, and those that came when
      they were not the newest any more. It goes with its key when a deletion is forgotten.

    Rows of one key and one sequence are one row: of one batch what `in_order` says, else the first.

    Args:
        settings: see there.
        rows: the columns of the rows, of which those of the key, the sequence and `GONE` are never null.
    """

    def __init__(self, settings: TableSettings, rows: pl.Schema) -> None:
        self._set = settings
        columns = pl.Schema({name: kind for name, kind in rows.items() if name != GONE})
        self._columns = list(columns)
        sequence = columns[settings.sequence]
        self.ports = {INPUT: rows}
        self.outputs = {
            MAIN: with_columns(
                columns,
                {CHANGE_TYPE: pl.String(), COMMIT_VERSION: sequence, COMMIT_TIMESTAMP: TIME},
            ),
            LATE: with_columns(columns, {REASON: pl.String()}),
        }
        kept = with_columns(columns, {GONE: pl.Boolean(), _DUE: TIME})
        self.tables = {_ROWS: Table(kept, due=_DUE)}
        if settings.history:
            self.tables[_HISTORY] = Table(kept, due=_DUE)

    def step(self, step: Step) -> Done:
        """Take in the rows that are newer than what is known; tell what they change."""
        state, outputs = step.state[_ROWS], {}
        came = self._judged(step.rows[INPUT], step.state)
        fresh = came.filter(pl.col(REASON).is_null()).drop(REASON)
        line = self._line(state, fresh)
        outputs[MAIN], nothing = self._changes(line)
        late = came.filter(pl.col(REASON).is_not_null()).select(*self._columns, REASON)
        outputs[LATE] = pl.concat([late, nothing])
        done: dict[str, pl.DataFrame] = {}
        due = state.filter(passed(_DUE, step.watermark))
        forgotten = due.select(KEY).clear()
        if fresh.height or due.height:
            newest = self._newest(state, fresh)
            over = passed(_DUE, step.watermark)
            done[_ROWS], forgotten = newest.filter(~over), newest.filter(over).select(KEY)
        if self._set.history:
            done |= self._history(step, line, came, forgotten)
        return Done({name: frame for name, frame in outputs.items() if frame.height}, done)

    def _judged(self, rows: pl.DataFrame, state: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """Return rows with the reason why each changes nothing, null where it may change something."""
        sequence = self._set.sequence
        known = state[_ROWS].select(KEY, pl.col(sequence).alias(_KNOWN))
        others = [name for name in self._columns if name != sequence]
        rows = in_order(rows, [KEY, sequence], GONE, others).join(
            known, on=KEY, how="left", maintain_order="left"
        )
        again = pl.struct(KEY, sequence).is_last_distinct().not_()
        if self._set.history:
            former = (
                state[_HISTORY]
                .select(KEY, sequence)
                .with_columns(pl.lit(value=True).alias(_BEFORE))
            )
            rows = rows.join(former.unique(), on=[KEY, sequence], how="left", maintain_order="left")
            again = again | pl.col(_BEFORE).fill_null(value=False)
        seen = pl.col(sequence) == pl.col(_KNOWN)
        older = pl.col(sequence) < pl.col(_KNOWN)
        reason = (
            pl.when(again | seen.fill_null(value=False))
            .then(pl.lit(DUPLICATE))
            .when(older.fill_null(value=False))
            .then(pl.lit(OLDER))
        )
        return rows.with_columns(
            reason.alias(REASON), self._due_of(self._set.deletes_within)
        ).select(KEY, *self._columns, GONE, _DUE, REASON)

    def _due_of(self, within: int | None) -> pl.Expr:
        """Return until when deletions are remembered."""
        if within is None or self._set.time is None:
            return pl.lit(None, TIME).alias(_DUE)
        until = pl.col(self._set.time) + pl.duration(microseconds=within)
        return pl.when(GONE).then(until).alias(_DUE)

    def _line(self, state: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
        """Return what was known of the keys of new rows, and those, as each key's rows follow."""
        before = state.join(fresh.select(KEY).unique(), on=KEY, how="semi")
        line = pl.concat(
            [
                before.with_columns(pl.lit(value=True).alias(_KNOWN)),
                fresh.with_columns(pl.lit(value=False).alias(_KNOWN)),
            ]
        ).sort(KEY, self._set.sequence)
        former = [runs.before(pl.col(name)).alias(_former(name)) for name in self._columns]
        there = runs.before(~pl.col(GONE)).fill_null(value=False).alias(_BEFORE)
        return line.with_columns(*former, there).with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).alias(_ORDER)
        )

    def _changes(self, line: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the changes that rows make, and the deletions that find nothing."""
        new = line.filter(~pl.col(_KNOWN))
        now = pl.lit(None, TIME) if self._set.time is None else pl.col(self._set.time)
        facts: list[pl.Expr] = [
            pl.col(self._set.sequence).alias(COMMIT_VERSION),
            now.alias(COMMIT_TIMESTAMP),
            pl.col(_ORDER),
        ]
        was = [pl.col(_former(name)).alias(name) for name in self._columns]
        there, gone = pl.col(_BEFORE), pl.col(GONE)

        def told(rows: pl.Expr, kind: pl.Expr, columns: list[pl.Expr]) -> pl.DataFrame:
            found = new.filter(rows)
            return found.select(*columns, kind.alias(CHANGE_TYPE), *facts)

        plain = [pl.col(name) for name in self._columns]
        kind = pl.when(_BEFORE).then(pl.lit(_POST)).otherwise(pl.lit(_INSERT))
        parts = [
            told(there, pl.when(GONE).then(pl.lit(DELETE)).otherwise(pl.lit(_PRE)), was),
            told(~gone, kind, plain),
        ]
        changes = pl.concat(parts).sort(_ORDER, maintain_order=True)
        nothing = new.filter(gone & ~there).select(*plain, pl.lit(NOTHING_THERE).alias(REASON))
        return changes.select(list(self.outputs[MAIN])), nothing

    def _newest(self, state: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
        """Return the newest row of each key."""
        newest = fresh.unique(KEY, keep="last", maintain_order=True)
        others = state.join(newest, on=KEY, how="anti", maintain_order="left")
        return pl.concat([others, newest])

    def _history(
        self, step: Step, line: pl.DataFrame, came: pl.DataFrame, forgotten: pl.DataFrame
    ) -> dict[str, pl.DataFrame]:
        """Return the former rows that are kept, if they are others than before.

        Args:
            forgotten: the keys whose deletion is forgotten.
        """
        settings, before = self._set, step.state[_HISTORY]
        due = before.filter(passed(_DUE, step.watermark))
        last = pl.col(_ORDER) == pl.col(_ORDER).max().over(KEY)
        columns = [KEY, *self._columns, GONE]
        new = pl.concat(
            [
                line.filter(~last).select(columns),
                came.filter(pl.col(REASON) == OLDER).select(columns),
            ]
        )
        if not new.height and not due.height and not forgotten.height:
            return {}
        until = pl.lit(None, TIME)
        if settings.history_within is not None and settings.time is not None:
            until = pl.col(settings.time) + pl.duration(microseconds=settings.history_within)
            new = new.filter(pl.col(settings.time).is_not_null())  # how old it is nobody can tell
        new = new.with_columns(until.alias(_DUE))
        touched = new.select(KEY).unique()
        mine = pl.concat([before.join(touched, on=KEY, how="semi"), new])
        if settings.history_versions is not None:
            by_key = mine.sort(KEY, settings.sequence).group_by(KEY, maintain_order=True)
            mine = by_key.tail(settings.history_versions).select(before.columns)
        rest = before.join(touched, on=KEY, how="anti", maintain_order="left")
        every = pl.concat([rest, mine]).filter(~passed(_DUE, step.watermark))
        return {_HISTORY: every.join(forgotten, on=KEY, how="anti", maintain_order="left")}


def _former(name: str) -> str:
    return f"__former_{name}"
