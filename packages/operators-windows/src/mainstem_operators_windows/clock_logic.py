"""What `clock` does with the rows of a batch and what it remembers, as frames."""

from __future__ import annotations

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.times import TIME
from mainstem_keyed_state.waiting import IDENTITY

_CLOCKS = "clocks"
_OFFSET, _AT = "offset", "at"
#: The least share that a new offset has, however soon after the last one it is seen.
_LEAST = 0.01


class ClockLogic(Logic):
    """Corrects times by the offset of each clock, as it is known when a row is received.

    What is remembered is of each clock its offset, and when it was seen last.

    Args:
        rows: the columns.
        event, sent, received: those of the three times; never null.
        half_life: what offsets are smoothed by, in microseconds; None where each row's own counts alone.
        corrected, offset: the names of the columns that are added.
    """

    def __init__(
        self,
        rows: pl.Schema,
        *,
        event: str,
        sent: str,
        received: str,
        half_life: int | None,
        corrected: str,
        offset: str,
    ) -> None:
        self._event, self._sent, self._received = event, sent, received
        self._half_life = half_life
        self._corrected, self._offset = corrected, offset
        self._order = [KEY, received, sent, *(name for name in (IDENTITY,) if name in rows)]
        self.ports = {"input": rows}
        self.outputs = {MAIN: pl.Schema({**rows, corrected: TIME, offset: pl.Int64()})}
        self.tables = {_CLOCKS: Table(pl.Schema({_OFFSET: pl.Float64(), _AT: pl.Int64()}))}

    def step(self, step: Step) -> Done:
        """Correct the rows, in the order in which they were received."""
        rows = step.rows["input"].select(KEY, *self.ports["input"])
        if rows.is_empty():
            return Done()
        rows = rows.sort(self._order, maintain_order=True)
        seen = (pl.col(self._received) - pl.col(self._sent)).dt.total_microseconds()
        rows = rows.with_columns(seen.alias(_OFFSET))
        if self._half_life is None:
            return Done({MAIN: self._shown(rows)})
        before = step.state[_CLOCKS]
        mine = before.join(rows.select(KEY).unique(), on=KEY, how="semi")
        known = {key: (offset, at) for key, offset, at in mine.rows()}
        smoothed = []
        received = rows.get_column(self._received).to_physical()
        for key, at, offset in zip(rows[KEY], received, rows[_OFFSET], strict=True):
            past, last = known.get(key, (float(offset), at))
            # One that was received before the last one has its share too, as if it had come with it.
            share = 0.5 ** (max(at - last, 0) / self._half_life)
            share = min(share, 1 - _LEAST) if key in known else 0.0
            now = past * share + offset * (1 - share)
            known[key] = (now, max(at, last))
            smoothed.append(now)
        rows = rows.with_columns(pl.Series(_OFFSET, smoothed, pl.Float64()).round().cast(pl.Int64))
        others = before.join(mine.select(KEY), on=KEY, how="anti", maintain_order="left")
        values = [(key, *value) for key, value in known.items()]
        kept = pl.DataFrame(values, schema=before.schema, orient="row")
        return Done({MAIN: self._shown(rows)}, {_CLOCKS: pl.concat([others, kept])})

    def _shown(self, rows: pl.DataFrame) -> pl.DataFrame:
        offset = pl.duration(microseconds=pl.col(_OFFSET))
        return rows.with_columns(
            (pl.col(self._event) + offset).alias(self._corrected),
            (pl.col(_OFFSET) // 1000).alias(self._offset),
        ).select(list(self.outputs[MAIN]))
