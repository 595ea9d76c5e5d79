"""What `top` does with the rows of a batch and what it remembers, as frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
from mainstem import CHANGE_TYPE
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table, runs
from mainstem_keyed_state.times import TIME, passed
from mainstem_keyed_state.waiting import IDENTITY

if TYPE_CHECKING:
    from mainstem_operators_windows.top import Term

_TOP = "top"
_RANK, _DUE, _NEW = "__rank", "__due", "__new"


class TopLogic(Logic):
    """Ranks rows by key.

    What is remembered are the first rows of each key, until the watermark has passed the key's time, if
    it has one.

    Args:
        rows: the columns.
        terms: the order.
        n: how many rows of each key.
        rank: the name of the column with the rank.
        time: the key's column with the event time, never null and of no late row; None without one.
        final: whether rows come out once their key's time has passed, in place of each change.
        ties: whether rows that are equal by the order have one rank; if they are final.
    """

    def __init__(
        self,
        rows: pl.Schema,
        *,
        terms: Sequence[Term],
        n: int,
        rank: str,
        time: str | None,
        final: bool,
        ties: bool = False,
    ) -> None:
        order = [(term.column, term.descending, term.nulls_last) for term in terms]
        self._ties = [column for column, _, _ in order] if ties else []
        if IDENTITY in rows:
            order.append((IDENTITY, False, False))
        self._order = [(KEY, False, False), *order]
        self._n = n
        self._rank = rank
        self._time = time
        self._final = final
        # What has one rank with others is told apart by its own id.
        columns = {name: kind for name, kind in rows.items() if name != IDENTITY or ties}
        told = {rank: pl.Int32(), **({} if final else {CHANGE_TYPE: pl.String()})}
        self.ports = {"input": rows}
        self.outputs = {MAIN: pl.Schema({**columns, **told})}
        kept = pl.Schema({**rows, _RANK: pl.Int32(), _DUE: TIME})
        self.tables = {_TOP: Table(kept, due=_DUE)}

    def step(self, step: Step) -> Done:
        """Rank the rows with those that are known, and tell what has changed, or is final."""
        before, rows = step.state[_TOP], step.rows["input"].select(KEY, *self.ports["input"])
        over = passed(_DUE, step.watermark)
        gone = before.filter(over)
        if not rows.height and not gone.height:
            return Done()
        touched = rows.select(KEY).unique()
        known = before.filter(~over)
        others = known.join(touched, on=KEY, how="anti", maintain_order="left")
        mine = known.join(touched, on=KEY, how="semi", maintain_order="left")
        ranked = self._ranked(mine, rows)
        kept = ranked.with_columns(pl.col(_NEW).alias(_RANK)).drop(_NEW)
        # A key is over at once if a step above has held its rows back until the watermark passed them.
        final = pl.concat([gone, kept.filter(over)])
        outputs = self._told(final if self._final else self._changes(mine, ranked))
        return Done(outputs, {_TOP: pl.concat([others, kept.filter(~over)])})

    def _ranked(self, mine: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the first rows of each key, in order, with their ranks of now as `_NEW`."""
        due = pl.lit(None, TIME)
        if self._time is not None:
            # A row of the watermark's own time is not late yet.
            due = pl.col(self._time) + pl.duration(microseconds=1)
        new = rows.with_columns(pl.lit(None, pl.Int32()).alias(_RANK), due.alias(_DUE))
        by, descending, last = zip(*self._order, strict=True)
        found = pl.concat([mine, new]).sort(
            by, descending=list(descending), nulls_last=list(last), maintain_order=True
        )
        place = (runs.place() + 1).cast(pl.Int32)
        if self._ties:
            place = runs.first(place, KEY, *self._ties)
        return found.with_columns(place.alias(_NEW)).filter(pl.col(_NEW) <= self._n)

    def _changes(self, mine: pl.DataFrame, ranked: pl.DataFrame) -> pl.DataFrame:
        """Return the changes: a new rank's row, or the one that had the rank and the one that has it."""
        moved = ranked.filter(pl.col(_RANK).ne_missing(pl.col(_NEW)))
        had = mine.select(KEY, _RANK)
        new = moved.join(had, left_on=[KEY, _NEW], right_on=[KEY, _RANK], how="anti")
        after = moved.join(had, left_on=[KEY, _NEW], right_on=[KEY, _RANK], how="semi")
        taken = after.select(KEY, _NEW)
        before = mine.join(taken, left_on=[KEY, _RANK], right_on=[KEY, _NEW], how="semi")
        now = pl.col(_NEW).alias(_RANK)
        parts = [
            (new.with_columns(now).drop(_NEW), "insert"),
            (before, "update_preimage"),
            (after.with_columns(now).drop(_NEW), "update_postimage"),
        ]
        return pl.concat(
            [part.with_columns(pl.lit(kind).alias(CHANGE_TYPE)) for part, kind in parts]
        )

    def _told(self, rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
        told = rows.with_columns(pl.col(_RANK).alias(self._rank)).select(list(self.outputs[MAIN]))
        return {MAIN: told} if told.height else {}
