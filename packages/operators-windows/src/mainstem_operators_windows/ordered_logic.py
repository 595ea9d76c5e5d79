"""What `aggregate` does with windows that go by rows: from each row back, or so many rows.

They hang on the order of rows by event time, so rows wait until the watermark has passed them. Of one
time the order is that of `TIE`, the same however rows come.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table, runs
from mainstem_keyed_state.times import TIME, passed, time_of
from mainstem_keyed_state.waiting import in_turn, waiting_table

from mainstem_operators_windows.windows_logic import (
    AT,
    END,
    LATE_MS,
    START,
    TIE,
    TOO_LATE,
    WATERMARK,
    Windowing,
)

_WAITING, _KEPT = "waiting", "kept"
_DUE, _NOW, _PLACE, _SIZE = "__due", "__now", "__place", "__size"
_LAST, _WINDOW = "__last", "__window"
#: So many rows of windows are brought together at a time, or those of one window.
_ROWS = 500_000


class OrderedLogic(Logic):
    """What such windows share: rows wait for their turn.

    Args:
        rows: the columns.
        windowing: what is totalled, and how it is called.
        number: the name of the column with a window's number, from 1; None where it has none.
    """

    def __init__(self, rows: pl.Schema, windowing: Windowing, number: str | None = None) -> None:
        self._windowing = windowing
        self._by = list(windowing.by)
        self._number = number
        self._parts = windowing.parts
        self._order = [AT, TIE]
        kept = (*self._by, *self._order)
        self._ready = {**{name: rows[name] for name in kept}, **self._parts}
        self.ports = {"input": rows}
        numbers = {number: pl.Int64()} if number is not None else {}
        late = pl.Schema({**windowing.late, WATERMARK: TIME, LATE_MS: pl.Int64()})
        self.outputs = {MAIN: windowing.told(rows, **numbers), TOO_LATE: late}
        self.tables = {_WAITING: waiting_table(self._ready), _KEPT: self._kept()}

    @abstractmethod
    def _kept(self) -> Table:
        """Return what is kept of rows whose turn has come, for the windows of later ones."""

    @abstractmethod
    def _windows(
        self, ready: pl.DataFrame, kept: pl.DataFrame, watermark: int | None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the windows of rows, and what is kept then.

        Args:
            ready: rows with their parts, by key in the order of events.
            kept: what is kept of keys that have such rows or are due.
        """

    def step(self, step: Step) -> Done:
        """Take in the rows, and tell the windows of those whose turn has come."""
        rows, watermark = step.rows["input"], step.watermark
        outputs: dict[str, pl.DataFrame] = {}
        if watermark is not None:
            late = pl.col(AT) < time_of(watermark)
            too_late, rows = rows.filter(late), rows.filter(~late)
            if too_late.height:
                columns = self.outputs[TOO_LATE]
                outputs[TOO_LATE] = self._windowing.late_rows(too_late, columns, watermark)
        new = rows.select(KEY, *self._by, *self._order, *self._windowing.lifted())
        new = new.select(KEY, *self._ready)
        ready, waiting = in_turn(new, step.state[_WAITING], AT, watermark)
        ready = ready.sort(KEY, *self._order, maintain_order=True)
        state: dict[str, pl.DataFrame] = {_WAITING: waiting}
        kept = step.state[_KEPT]
        touched = pl.concat([ready.select(KEY), kept.filter(self._over(watermark)).select(KEY)])
        if not touched.is_empty():
            others = kept.join(touched, on=KEY, how="anti", maintain_order="left")
            mine = kept.join(touched, on=KEY, how="semi", maintain_order="left")
            windows, mine = self._windows(ready, mine, watermark)
            state[_KEPT] = pl.concat([others, mine.select(kept.columns)])
            if windows.height:
                number = {} if self._number is None else {self._number: pl.col(_PLACE)}
                outputs[MAIN] = self._windowing.shown(windows, **number)
        return Done(outputs, state)

    def _totals(
        self, rows: pl.DataFrame, last: npt.NDArray[Any], sizes: npt.NDArray[Any]
    ) -> pl.DataFrame:
        """Return the totals of windows of rows that stand together, and `AT` and `_PLACE` of their last.

        The rows of each window are brought together and added up anew, some windows at a time: of binary
        numbers a running sum would keep what a large one was rounded by, and other totals do not roll.

        Args:
            last: the last row of each window, by number.
            sizes: how many rows each has.
        """
        ends, lengths = last.astype(np.int64), sizes.astype(np.int64)
        parts = rows.select(*self._parts)
        found: list[pl.DataFrame] = []
        for some in _portions(lengths):
            begins, each = ends[some] - lengths[some] + 1, lengths[some]
            # Of each row of each window its number in `rows`.
            numbers = np.arange(each.sum()) + np.repeat(begins - np.cumsum(each) + each, each)
            window = pl.Series(_WINDOW, np.repeat(np.arange(len(each)), each))
            gathered = parts[numbers].with_columns(window)
            totals = gathered.group_by(_WINDOW, maintain_order=True).agg(*self._windowing.merged())
            found.append(totals.drop(_WINDOW))
        place = [_PLACE] if _PLACE in rows.columns else []
        return rows[ends].select(
            KEY,
            *self._by,
            *place,
            AT,
            rows[AT][ends - lengths + 1].alias(START),
            pl.col(AT).alias(END),
            *pl.concat(found),
        )

    def _over(self, watermark: int | None) -> pl.Expr:
        due = self.tables[_KEPT].due
        return pl.lit(value=False) if due is None else passed(due, watermark)


def _portions(sizes: npt.NDArray[Any]) -> Iterator[slice]:
    """Yield which windows are totalled at a time; one portion at least."""
    begin = rows = 0
    for number, size in enumerate(sizes.tolist()):
        if rows and rows + size > _ROWS:
            yield slice(begin, number)
            begin, rows = number, 0
        rows += size
    yield slice(begin, len(sizes))


class SlidingLogic(OrderedLogic):
    """Windows that end with a row and reach a length back, both ends among them.

    Rows of one time share one. What is kept are the rows that a later one on time can still reach.

    Args:
        length: in microseconds.
    """

    def __init__(self, rows: pl.Schema, windowing: Windowing, length: int) -> None:
        self._length = length
        super().__init__(rows, windowing)

    def _kept(self) -> Table:
        return Table(pl.Schema({**self._ready, _DUE: TIME}), due=_DUE)

    def _windows(
        self, ready: pl.DataFrame, kept: pl.DataFrame, watermark: int | None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        over = (pl.col(AT) + pl.duration(microseconds=self._length + 1)).alias(_DUE)
        known = pl.concat([kept, ready.with_columns(over)])
        known = known.sort(KEY, *self._order, maintain_order=True)
        reached = known.with_row_index(_LAST).rolling(
            AT, period=f"{self._length}us", closed="both", group_by=KEY
        )
        if self._windowing.rolls:
            last = (pl.col(name).last() for name in self._by)
            windows = reached.agg(*last, *self._windowing.merged())
        else:
            windows = reached.agg(pl.col(_LAST).last(), pl.len().alias(_SIZE))
        windows = windows.unique([KEY, AT], keep="last", maintain_order=True)
        now = ready.select(KEY, AT).unique()
        totals = windows.join(now, on=[KEY, AT], how="semi", maintain_order="left")
        if not self._windowing.rolls:
            totals = self._totals(known, totals[_LAST].to_numpy(), totals[_SIZE].to_numpy())
        totals = totals.with_columns(
            (pl.col(AT) - pl.duration(microseconds=self._length)).alias(START),
            pl.col(AT).alias(END),
        )
        return totals, known.filter(~passed(_DUE, watermark))


class CountedLogic(OrderedLogic):
    """Windows of so many rows, one after another: the number of each tells it from the others of its key.

    What is kept of a key is the window that is not full yet.

    Args:
        size: how many rows.
    """

    def __init__(self, rows: pl.Schema, windowing: Windowing, number: str, size: int) -> None:
        self._size = size
        super().__init__(rows, windowing, number)

    def _kept(self) -> Table:
        keys = {name: kind for name, kind in self._ready.items() if name in self._by}
        counts = {_SIZE: pl.Int64(), _PLACE: pl.Int64()}
        return Table(pl.Schema({**keys, START: TIME, END: TIME, **self._parts, **counts}))

    def _windows(
        self, ready: pl.DataFrame, kept: pl.DataFrame, watermark: int | None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        new = ready.with_columns(
            pl.col(AT).alias(START),
            pl.col(AT).alias(END),
            pl.lit(1, pl.Int64()).alias(_SIZE),
            pl.lit(None, pl.Int64()).alias(_PLACE),
        ).select(kept.columns)
        both = pl.concat([kept, new]).sort(KEY, maintain_order=True)
        # Of a key that is known the first number is the window's that is not full.
        first = pl.col(_PLACE).max().over(KEY).fill_null(0)
        before = runs.total(pl.col(_SIZE)) - pl.col(_SIZE)
        both = both.with_columns((first + before // self._size).alias(_PLACE))
        windows = both.group_by(KEY, _PLACE, maintain_order=True).agg(
            *(pl.col(name).first() for name in self._by),
            pl.col(START).min(),
            pl.col(END).max(),
            *self._windowing.merged(),
            pl.col(_SIZE).sum(),
        )
        full = pl.col(_SIZE) == self._size
        last = pl.col(_PLACE) == pl.col(_PLACE).max().over(KEY)
        left = windows.filter(~full)
        # A key whose last window is full goes on with the next number.
        parts = [pl.lit(None, kind).alias(name) for name, kind in self._parts.items()]
        following = windows.filter(full & last).with_columns(
            pl.lit(None, TIME).alias(START),
            pl.lit(None, TIME).alias(END),
            *parts,
            pl.lit(0, pl.Int64()).alias(_SIZE),
            (pl.col(_PLACE) + 1).alias(_PLACE),
        )
        return windows.filter(full).with_columns(pl.col(_PLACE) + 1), pl.concat(
            [left, following]
        ).select(kept.columns)


class SlidingCountLogic(OrderedLogic):
    """Windows of so many rows, a new one every few rows, from the first that is full.

    What is kept of a key are as many rows as the next window can reach back to.

    Args:
        size: how many rows.
        every: after how many there is the next window.
    """

    def __init__(
        self, rows: pl.Schema, windowing: Windowing, number: str, size: int, every: int
    ) -> None:
        self._size, self._every = size, every
        super().__init__(rows, windowing, number)

    def _kept(self) -> Table:
        return Table(pl.Schema({**self._ready, _PLACE: pl.Int64()}))

    def _windows(
        self, ready: pl.DataFrame, kept: pl.DataFrame, watermark: int | None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        new = ready.with_columns(pl.lit(None, pl.Int64()).alias(_PLACE))
        # Kept rows count for nothing here, and the new ones of a key stand together.
        both = pl.concat([kept, new])
        both = both.with_columns(pl.col(_PLACE).is_null().alias(_NOW))
        reached = pl.col(_PLACE).max().over(KEY).fill_null(0)
        following = reached + runs.total(pl.col(_NOW).cast(pl.Int64))
        both = both.with_columns(pl.coalesce(_PLACE, following).alias(_PLACE)).sort(KEY, _PLACE)
        beyond = pl.col(_PLACE) - self._size
        full = pl.col(_NOW) & (beyond >= 0) & (beyond % self._every == 0)
        if self._windowing.rolls:
            rolled = both.rolling(_PLACE, period=f"{self._size}i", group_by=KEY).agg(
                *(pl.col(name).last() for name in self._by),
                pl.col(AT).min().alias(START),
                pl.col(AT).max().alias(END),
                *self._windowing.merged(),
                pl.col(_NOW).last(),
            )
            windows = rolled.filter(full)
        else:
            ends = both.select(full.arg_true()).to_series().to_numpy()
            windows = self._totals(both, ends, np.full(len(ends), self._size))
        windows = windows.with_columns((beyond // self._every + 1).alias(_PLACE))
        last = pl.col(_PLACE).max().over(KEY)
        # One row at least, which tells the number that is next.
        reach = max(self._size - 1, 1)
        return windows, both.filter(pl.col(_PLACE) > last - reach)
