"""What `python_by_key` does with a batch: it calls the user's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from mainstem_keyed_state.logic import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.times import passed

_KEPT = "kept"
_ID = "_id"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The last second that Python knows, in microseconds.
_LAST = 253_402_300_799_000_000


class FunctionLogic(Logic):
    """Calls a function with the rows of the keys that are touched, and what it kept of them.

    Args:
        rows: the columns of the rows.
        by: those of the key.
        kept, out: what the function keeps of a key beside its columns, and the rows it gives.
        wake: the column of `kept` with the time at which a key is to be called for.
        time: the rows' event time, if they have one.
        function: see `PythonByKeyOptions`.
        name, options: its name, and what else it is called with.
        folder: that of the user's code, whose lines errors tell.
    """

    def __init__(
        self,
        rows: pl.Schema,
        *,
        by: Sequence[str],
        kept: pl.Schema,
        out: pl.Schema,
        wake: str | None,
        time: str | None,
        function: Callable[..., Any],
        name: str,
        options: Mapping[str, Any],
        folder: Path,
    ) -> None:
        self._by = list(by)
        self._wake = wake
        self._function = function
        self._name = name
        self._options = dict(options)
        self._folder = folder
        #: What a call is given is in this order, as far as that goes.
        self._order = [column for column in (time, _ID) if column in rows] if time else []
        self._given = [column for column in rows if not column.startswith("_")]
        columns = pl.Schema({**{column: rows[column] for column in self._by}, **kept})
        self.ports = {"input": rows}
        self.tables = {_KEPT: Table(columns, due=wake)}
        self.outputs = {MAIN: out}

    def step(self, step: Step) -> Done:
        """Call the function, if any key has rows or is woken."""
        rows, kept = step.rows["input"], step.state[_KEPT]
        woken = kept.filter(passed(self._wake, step.watermark)) if self._wake else kept.clear()
        touched = pl.concat([rows.select(KEY), woken.select(KEY)]).unique()
        if touched.is_empty():
            return Done()
        mine = kept.join(touched, on=KEY, how="semi", maintain_order="left", nulls_equal=True)
        others = kept.join(touched, on=KEY, how="anti", maintain_order="left", nulls_equal=True)
        if self._order:
            rows = rows.sort(self._order)
        keys = pl.concat([rows.select(KEY, *self._by), mine.select(KEY, *self._by)])
        out, now = self._called(rows.select(self._given), mine.drop(KEY), step.watermark)
        told = self._fitting(out, self.outputs[MAIN], "rows that come out")
        left = self._fitting(now, self.tables[_KEPT].columns, "what is kept")
        keys = keys.unique(KEY, keep="any")
        left = left.join(keys, on=self._by, how="left", nulls_equal=True, maintain_order="left")
        left = left.select(kept.columns)
        if left[KEY].null_count():
            raise ValueError(f"{self._name} keeps something of a key that it was not given")
        return Done({MAIN: told}, {_KEPT: pl.concat([others, left])})

    def _called(self, rows: pl.DataFrame, kept: pl.DataFrame, watermark: int | None) -> Any:
        at = None if watermark is None else _EPOCH + timedelta(microseconds=min(watermark, _LAST))
        try:
            found = self._function(rows, kept, watermark=at, **self._options)
        except Exception as error:
            from mainstem.functions import what_raised

            # Of a chain of errors the run tells the first alone.
            raise ValueError(what_raised(self._name, error, self._folder)) from None
        if not isinstance(found, tuple) or len(found) != 2:
            raise ValueError(f"{self._name} returned {type(found).__name__}, not two frames")
        return found

    def _fitting(self, frame: Any, schema: Mapping[str, pl.DataType], what: str) -> pl.DataFrame:
        """Return a frame in the declared columns."""
        if not isinstance(frame, pl.DataFrame):
            raise ValueError(f"{self._name}: {what}: {type(frame).__name__}, not a frame of Polars")
        if lacking := [column for column in schema if column not in frame.columns]:
            raise ValueError(f"{self._name}: {what}: there is no column {', '.join(lacking)}")
        if extra := [column for column in frame.columns if column not in schema]:
            raise ValueError(f"{self._name}: {what}: {', '.join(extra)} is not declared")
        for column, wanted in schema.items():
            if not _widens(frame.schema[column], wanted):
                told = f"{column} is {frame.schema[column]}; declared: {wanted}"
                raise ValueError(f"{self._name}: {what}: {told}")
        try:
            return frame.select(list(schema)).cast(dict(schema))  # type: ignore[arg-type]
        except pl.exceptions.PolarsError:
            told = "a value does not fit its column"  # and would be shown
            raise ValueError(f"{self._name}: {what}: {told}") from None


def _widens(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether values of one type become another's unchanged, or not at all: integers may be too large."""
    if found == wanted or found == pl.Null():
        return True
    if isinstance(found, pl.Datetime) and isinstance(wanted, pl.Datetime):
        return found.time_zone == wanted.time_zone and found.time_unit != "ns"
    if isinstance(found, pl.List) and isinstance(wanted, pl.List):
        return _widens(found.inner, wanted.inner)  # type: ignore[arg-type]
    if isinstance(found, pl.Decimal) and isinstance(wanted, pl.Decimal):
        return found.scale == wanted.scale
    floats = found == pl.Float32() and wanted == pl.Float64()
    return floats or (found.is_integer() and wanted.is_integer())
