"""What `python_by_key` does with a batch: it calls the user's function."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from mainstem_keyed_state.logic import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.times import passed

_KEPT = "kept"
_ID = "_id"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    ) -> None:
        self._by = list(by)
        self._wake = wake
        self._function = function
        self._name = name
        self._options = dict(options)
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
        left = left.join(
            keys.unique(KEY, keep="any"), on=self._by, how="left", nulls_equal=True
        ).select(kept.columns)
        if left[KEY].null_count():
            strange = left.filter(pl.col(KEY).is_null()).select(self._by).row(0)
            raise ValueError(
                f"{self._name} keeps something of a key that it was not given: {strange}"
            )
        return Done({MAIN: told}, {_KEPT: pl.concat([others, left])})

    def _called(self, rows: pl.DataFrame, kept: pl.DataFrame, watermark: int | None) -> Any:
        at = None if watermark is None else _EPOCH + timedelta(microseconds=watermark)
        try:
            found = self._function(rows, kept, watermark=at, **self._options)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error}".removesuffix(": ")
            told = f"{self._name} raised {text} ({last.filename}, line {last.lineno})"
            raise ValueError(told) from None  # of a chain the run tells the first error alone
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
        try:
            return frame.select(list(schema)).cast(dict(schema))  # type: ignore[arg-type]
        except pl.exceptions.PolarsError as error:
            raise ValueError(f"{self._name}: {what}: {error}") from error
