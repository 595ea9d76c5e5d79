"""What `deduplicate` does with the rows of a batch and what it remembers, as frames."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.times import TIME, passed
from mainstem_keyed_state.waiting import IDENTITY

COPIES = "copies"
_KEPT, _WAITING = "kept", "waiting"
_AT, _DUE, _STAYS = "__at", "__due", "__stays"


class _Logic(Logic):
    """What both ways share.

    Args:
        rows: the columns.
        time: the event time's; never null, and of no late row.
        within: how far from the row that stays another is its copy, in microseconds.
    """

    def __init__(self, rows: pl.Schema, time: str, within: int) -> None:
        self._time = time
        self._within = within
        # Of one time the order is that of the identities, if there are any.
        self._order = [KEY, time, *(name for name in (IDENTITY,) if name in rows)]
        self.ports = {"input": rows}
        self.outputs = {MAIN: rows, COPIES: rows}

    def _in_order(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows by key and time, their columns as the tables have them."""
        return rows.select(KEY, *self.ports["input"]).sort(self._order, maintain_order=True)

    def _told(self, rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """Return the outputs for rows with `_STAYS`, which is null for one that waits."""
        stays = pl.col(_STAYS)
        parts = {MAIN: rows.filter(stays), COPIES: rows.filter(~stays)}
        return {name: part.drop(KEY, _STAYS) for name, part in parts.items() if part.height}


class FirstLogic(_Logic):
    """Lets the row pass that comes first; of one batch it is the earliest.

    What is remembered are the times of rows that passed, until none on time can be a copy of them.
    """

    def __init__(self, rows: pl.Schema, time: str, within: int) -> None:
        super().__init__(rows, time, within)
        self.tables = {_KEPT: Table(pl.Schema({_AT: TIME, _DUE: TIME}), due=_DUE)}

    def step(self, step: Step) -> Done:
        """Tell which rows pass, and remember these."""
        before = step.state[_KEPT]
        kept = before.filter(~passed(_DUE, step.watermark))
        rows = self._in_order(step.rows["input"])
        rows = rows.with_columns(pl.Series(_STAYS, self._first(rows, kept), pl.Boolean()))
        after = (pl.col(self._time) + pl.duration(microseconds=self._within + 1)).alias(_DUE)
        new = rows.filter(_STAYS).select(KEY, pl.col(self._time).alias(_AT), after)
        changed = new.height or kept.height < before.height
        return Done(self._told(rows), {_KEPT: pl.concat([kept, new])} if changed else {})

    def _first(self, rows: pl.DataFrame, kept: pl.DataFrame) -> list[bool]:
        """Return of each row, in the order of time by key, whether it passes."""
        known: dict[bytes, list[int]] = {}
        wanted = kept.join(rows.select(KEY).unique(), on=KEY, how="semi").sort(KEY, _AT)
        for key, at in zip(wanted[KEY], wanted[_AT].to_physical(), strict=True):
            known.setdefault(key, []).append(at)
        found = []
        for key, at in zip(rows[KEY], rows[self._time].to_physical(), strict=True):
            times = known.setdefault(key, [])
            near = bisect_left(times, at - self._within)
            new = near == len(times) or times[near] > at + self._within
            if new:
                insort(times, at)
            found.append(new)
        return found


class LastLogic(_Logic):
    """Lets rows wait until all copies of the earliest one are there, and gives the last of these.

    What is remembered are the rows that wait; those of a key are all due when the time of the earliest is
    over.
    """

    def __init__(self, rows: pl.Schema, time: str, within: int) -> None:
        super().__init__(rows, time, within)
        self.tables = {_WAITING: Table(pl.Schema({**rows, _DUE: TIME}), due=_DUE)}

    def step(self, step: Step) -> Done:
        """Take in the rows, and give what is over."""
        before = step.state[_WAITING]
        rows = self._in_order(step.rows["input"]).with_columns(pl.lit(None, TIME).alias(_DUE))
        due = before.filter(passed(_DUE, step.watermark)).select(KEY)
        touched = pl.concat([rows.select(KEY), due]).unique()
        if not touched.height:
            return Done()
        others = before.join(touched, on=KEY, how="anti", maintain_order="left")
        mine = before.join(touched, on=KEY, how="semi", maintain_order="left")
        mine = pl.concat([mine, rows]).sort(self._order, maintain_order=True)
        stays, dues = [], []
        for one, until in self._clusters(mine, step.watermark):
            stays.append(one)
            dues.append(until)
        mine = mine.with_columns(
            pl.Series(_STAYS, stays, pl.Boolean()), pl.Series(_DUE, dues, pl.Int64()).cast(TIME)
        )
        waiting = mine.filter(pl.col(_STAYS).is_null()).drop(_STAYS)
        outputs = self._told(mine.filter(pl.col(_STAYS).is_not_null()).drop(_DUE))
        return Done(outputs, {_WAITING: pl.concat([others, waiting])})

    def _clusters(
        self, rows: pl.DataFrame, watermark: int | None
    ) -> Iterator[tuple[bool | None, int]]:
        """Yield of each row, in the order of time by key, whether it stays, and when it is due.

        It is not known yet, and None, as long as copies of the earliest can come.
        """
        keys = rows[KEY].to_list()
        times = rows[self._time].to_physical().to_list()
        last = len(keys) - 1
        until, of = 0, None
        for n, (key, at) in enumerate(zip(keys, times, strict=True)):
            over = watermark is not None and until < watermark
            # Rows after an earliest one that waits are due with it.
            if key != of or (at > until and over):
                until, of = at + self._within, key
            if watermark is None or until >= watermark:
                yield None, until + 1
                continue
            ends = n == last or keys[n + 1] != key or times[n + 1] > until
            yield ends, until + 1
