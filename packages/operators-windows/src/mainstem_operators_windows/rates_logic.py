"""What `rates` does with the rows of a batch and what it remembers, as frames."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.times import TIME, passed
from mainstem_keyed_state.waiting import in_turn, order_of, waiting_table

_WAITING, _KEPT, _DUE = "waiting", "kept", "__due"
#: After so many half-lives nothing is left of a row that a double could tell.
_FORGOTTEN = 60
_MICROS = 1_000_000


@dataclass
class _Past:
    """What is known of a key.

    Attributes:
        at: the time of its last row, in microseconds.
        rows: how many there were, each counting less with its age.
        values: of how many a value is known, counted likewise.
        mean: of these.
        squares: how far they are from it, squared and added up.
    """

    at: int = 0
    rows: float = 0.0
    values: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def aged(self, at: int, half_life: int) -> None:
        """Let time pass: after long enough nothing is known, as where the past has been let go of."""
        away = max(at - self.at, 0)
        self.at = at
        if away >= _FORGOTTEN * half_life:
            self.rows = self.values = self.mean = self.squares = 0.0
            return
        left = 0.5 ** (away / half_life)
        self.rows *= left
        self.values *= left
        self.squares *= left

    def add(self, value: float | None) -> None:
        """Take in a row; a value that a double can't square counts as none, or it would outlive all."""
        self.rows += 1.0
        if value is None or not math.isfinite(value):
            return
        away = value - self.mean
        mean = self.mean + away / (self.values + 1.0)
        squares = self.squares + away * (value - mean)
        if math.isfinite(squares):
            self.values, self.mean, self.squares = self.values + 1.0, mean, squares

    def told(self, what: str, value: float | None, half_life: int) -> float | None:
        """Return what is asked for of a row that comes now."""
        if what == "rate":
            return self.rows * math.log(2) / half_life * _MICROS
        if self.values <= 0.0:
            return None
        if what == "mean":
            return self.mean
        deviation = math.sqrt(max(self.squares, 0.0) / self.values)
        if what == "deviation":
            return deviation
        if value is None or deviation == 0.0:
            return None
        return (value - self.mean) / deviation


class RatesLogic(Logic):
    """Adds to rows, in the order of their time, what is known of those before.

    Args:
        rows: the columns.
        time: the event time's; never null, and of no late row.
        value: that of the value that is looked at; None for none.
        half_life: in microseconds.
        columns: what is added, by name.
    """

    def __init__(
        self,
        rows: pl.Schema,
        *,
        time: str,
        value: str | None,
        half_life: int,
        columns: Mapping[str, str],
    ) -> None:
        self._time = time
        self._value = value
        self._half_life = half_life
        self._columns = dict(columns)
        added = dict.fromkeys(columns, pl.Float64())
        self.ports = {"input": rows}
        self.outputs = {MAIN: pl.Schema({**rows, **added})}
        waiting = waiting_table(rows)
        past = {
            "at": pl.Int64(),
            **dict.fromkeys(("rows", "values", "mean", "squares"), pl.Float64()),
        }
        self.tables = {_WAITING: waiting, _KEPT: Table(pl.Schema({**past, _DUE: TIME}), due=_DUE)}

    def step(self, step: Step) -> Done:
        """Give the rows whose turn has come."""
        rows = step.rows["input"].select(KEY, *self.ports["input"])
        ready, waiting = in_turn(rows, step.state[_WAITING], self._time, step.watermark)
        ready = ready.sort(KEY, *order_of(self._time, ready.schema), maintain_order=True)
        kept = step.state[_KEPT]
        mine = kept.join(ready.select(KEY).unique(), on=KEY, how="semi")
        pasts = {key: _Past(*rest) for key, *rest in mine.drop(_DUE).rows()}
        told: dict[str, list[float | None]] = {name: [] for name in self._columns}
        micros = ready.get_column(self._time).to_physical()
        numbers: list[float | None] = [None] * ready.height
        if self._value is not None:
            numbers = ready.get_column(self._value).cast(pl.Float64).to_list()
        for key, at, value in zip(ready[KEY], micros, numbers, strict=True):
            past = pasts.setdefault(key, _Past(at))
            past.aged(at, self._half_life)
            for name, what in self._columns.items():
                told[name].append(past.told(what, value, self._half_life))
            past.add(value)
        others = kept.join(mine.select(KEY), on=KEY, how="anti", maintain_order="left")
        known = pl.concat([others, self._kept(pasts, kept)])
        known = known.filter(~passed(_DUE, step.watermark))
        state = {_WAITING: waiting, _KEPT: known}
        added = [pl.Series(name, values, pl.Float64()) for name, values in told.items()]
        shown = ready.with_columns(added).select(list(self.outputs[MAIN]))
        return Done({MAIN: shown} if shown.height else {}, state)

    def _kept(self, pasts: Mapping[bytes, _Past], like: pl.DataFrame) -> pl.DataFrame:
        values = [(key, *vars(past).values()) for key, past in pasts.items()]
        schema = [(name, kind) for name, kind in like.schema.items() if name != _DUE]
        found = pl.DataFrame(values, schema=schema, orient="row")
        until = pl.from_epoch(pl.col("at") + _FORGOTTEN * self._half_life, "us")
        return found.with_columns(until.dt.replace_time_zone("UTC").alias(_DUE))
