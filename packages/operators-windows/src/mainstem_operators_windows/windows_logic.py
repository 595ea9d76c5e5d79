"""What `aggregate` does with windows in state by key: rows join them, and their totals come out.

A window is known from its first row until the watermark has passed its end and the lateness. Which
windows a row is in is decided before; sessions are put together here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
from mainstem import CHANGE_TYPE
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table, runs
from mainstem_keyed_state.times import TIME, passed, time_of

from mainstem_operators_windows.emission import EARLY, LATE, NUMBER, ON_TIME, PANE
from mainstem_operators_windows.totals.accumulator import Accumulator

#: The rows' columns with their time and their window.
AT, START, END = "__at", "__start", "__end"
#: The one that puts rows of one time in an order: their identity, or where nobody needs one a hash of
#: what is read of them.
TIE = "__tie"
#: The output of rows that came too late.
TOO_LATE = "late"
WATERMARK, LATE_MS = "_batch_watermark", "_late_ms"
WINDOW_START, WINDOW_END = "_window_start", "_window_end"

_OPEN = "windows"
_DUE, _NEXT, _SINCE = "__due", "__next", "__since"
_PANE, _FIRED, _TOLD = "__pane", "__fired", "__told"
_ROW, _KNOWN, _CAME, _BORN = "__row", "__known", "__came", "__born"
#: Of a window or a row: start and end of the one that it is part of now.
_INTO, _UNTIL = "__into", "__until"
_ONE = pl.lit(1, pl.Int64())


@dataclass(frozen=True)
class Emission:
    """When the totals of a window come out.

    Attributes:
        how: `final`, once; `changes`, with each batch that changes them; `panes`, as the others say.
        lateness: how long a window stays open after its end, by the watermark, in microseconds.
        every: the time from one early result to the next, in microseconds; None for none.
        count: after how many rows there is an early result; None for none.
        increments: whether a result has only what has come since the last one.
    """

    how: Literal["final", "changes", "panes"]
    lateness: int = 0
    every: int | None = None
    count: int | None = None
    increments: bool = False


@dataclass(frozen=True)
class Windowing:
    """What all windows share.

    Attributes:
        by: the columns of the key.
        accumulators: what is totalled.
        bounds: the names of the columns with a window's start and end; None where one never ends.
        late: the columns of rows that came too late.
    """

    by: Sequence[str]
    accumulators: Sequence[Accumulator]
    bounds: tuple[str, str] | None
    late: Mapping[str, pl.DataType]

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The columns of what totals are made of."""
        return {name: kind for each in self.accumulators for name, kind in each.parts.items()}

    def told(self, rows: pl.Schema, **more: pl.DataType) -> pl.Schema:
        """Return the columns that come out."""
        keys = {name: rows[name] for name in self.by}
        bounds = dict.fromkeys(self.bounds or (), TIME)
        told = {name: kind for each in self.accumulators for name, kind in each.told.items()}
        return pl.Schema({**keys, **bounds, **told, **more})

    def lifted(self) -> list[pl.Expr]:
        """Return the parts of a row."""
        return [part for each in self.accumulators for part in each.lifted(_ONE)]

    @property
    def rolls(self) -> bool:
        """Whether windows that overlap can be totalled by what comes into them and what leaves."""
        return all(each.rolls for each in self.accumulators)

    def merged(self) -> list[pl.Expr]:
        """Return the parts of rows together."""
        return [part for each in self.accumulators for part in each.merged()]

    def shown(self, windows: pl.DataFrame, **more: pl.Expr) -> pl.DataFrame:
        """Return windows, with the columns `START`, `END` and parts, as they come out."""
        columns = zip((START, END), self.bounds or (), strict=False)
        bounds = [pl.col(column).alias(name) for column, name in columns]
        settled = [part for each in self.accumulators for part in each.settled()]
        return windows.select(*self.by, *bounds, *settled, **more)

    def late_rows(self, rows: pl.DataFrame, columns: pl.Schema, watermark: int) -> pl.DataFrame:
        """Return rows that came too late, with the watermark then, and how far they were behind it."""
        mark = time_of(watermark)
        behind = (mark - pl.col(AT)).dt.total_milliseconds().alias(LATE_MS)
        rows = rows.with_columns(mark.alias(WATERMARK), behind)
        # Columns that nobody reads are not among the rows.
        return rows.select(
            pl.col(name) if name in rows.columns else pl.lit(None, kind).alias(name)
            for name, kind in columns.items()
        )


class WindowsLogic(Logic):
    """Totals of windows.

    Args:
        rows: the columns.
        windowing: what is totalled, and how it is called.
        emission: when it comes out.
        gap: that of sessions, in microseconds; None where rows bring their windows.
    """

    def __init__(
        self,
        rows: pl.Schema,
        windowing: Windowing,
        emission: Emission,
        gap: int | None = None,
    ) -> None:
        self._windowing = windowing
        self._by = list(windowing.by)
        self._emission = emission
        self._gap = gap
        #: How far behind its end a window is over: what comes at the end of a session is part of it.
        self._behind = 0 if gap is None else 1
        self._changes = emission.how != "final" and not emission.increments
        panes = {PANE: pl.String(), NUMBER: pl.Int32()} if emission.how == "panes" else {}
        changes = {CHANGE_TYPE: pl.String()} if self._changes else {}
        self.ports = {"input": rows}
        self.outputs = {MAIN: windowing.told(rows, **panes, **changes)}
        if windowing.bounds:
            bounds = dict.fromkeys((WINDOW_START, WINDOW_END, WATERMARK), TIME)
            late = pl.Schema({**windowing.late, **bounds, LATE_MS: pl.Int64()})
            self.outputs = {**self.outputs, TOO_LATE: late}
        keys, parts = {name: rows[name] for name in self._by}, windowing.parts
        kept: dict[str, pl.DataType] = {**keys, START: TIME, END: TIME, **parts, _DUE: TIME}
        if emission.how == "panes":
            counts = {_SINCE: pl.Int64(), _PANE: pl.Int32()}
            kept |= {**counts, _FIRED: pl.Boolean(), _TOLD: pl.Boolean(), _NEXT: TIME}
        self._parts = parts
        self.tables = {_OPEN: Table(pl.Schema(kept), due=_DUE)}

    def step(self, step: Step) -> Done:
        """Let rows join their windows, and tell what is to be told."""
        before, watermark = step.state[_OPEN], step.watermark
        rows = step.rows["input"].with_row_index(_ROW)
        due = before.filter(passed(_DUE, watermark)).select(KEY)
        touched = pl.concat([rows.select(KEY), due]).unique()
        if touched.is_empty():
            return Done()
        others = before.join(touched, on=KEY, how="anti", maintain_order="left")
        mine = before.join(touched, on=KEY, how="semi", maintain_order="left")
        grouped = self._grouped(mine, rows)
        is_late = ~pl.col(_KNOWN) & self._closed(_UNTIL, watermark)
        late = grouped.filter(is_late)
        if late.height:
            grouped = self._grouped(mine, rows.join(late.select(_ROW), on=_ROW, how="anti"))
        windows = self._merged(grouped)
        if self._emission.how == "final":
            outputs = [self._windowing.shown(windows.filter(self._closed(END, watermark)))]
        elif self._emission.how == "changes":
            outputs = self._changed(grouped, windows)
        else:
            outputs, windows = self._panes(grouped, windows, watermark)
        kept = windows.filter(~self._closed(END, watermark)).with_columns(self._due())
        told = {MAIN: pl.concat(outputs)}
        if late.height:
            told[TOO_LATE] = self._too_late(rows, late, watermark or 0)
        found = {name: frame for name, frame in told.items() if frame.height}
        return Done(found, {_OPEN: pl.concat([others, kept.select(before.columns)])})

    # -- how rows join windows ----------------------------------------------------------------

    def _grouped(self, known: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """Return windows that are known and rows, with the window that each becomes part of."""
        bounds = [pl.col(START), pl.col(END)]
        if not self._windowing.bounds:
            bounds = [pl.lit(None, TIME).alias(name) for name in (START, END)]
        elif self._gap is not None:
            ends = pl.col(AT) + pl.duration(microseconds=self._gap)
            bounds = [pl.col(AT).alias(START), ends.alias(END)]
        new = rows.select(KEY, *self._by, *bounds, *self._windowing.lifted(), _ROW)
        both = pl.concat(
            [
                known.with_columns(pl.lit(value=True).alias(_KNOWN)),
                new.with_columns(pl.lit(value=False).alias(_KNOWN)),
            ],
            how="diagonal",
        )
        if self._gap is None:
            return both.with_columns(pl.col(START).alias(_INTO), pl.col(END).alias(_UNTIL))
        both = both.sort(KEY, START, END, maintain_order=True)
        reached = runs.before(runs.most(pl.col(END)))
        # What begins where another one ends is part of it, as in Spark.
        begins = (pl.col(START) > reached).fill_null(value=True)
        of = begins.cum_sum()
        return both.with_columns(
            pl.col(START).min().over(of).alias(_INTO), pl.col(END).max().over(of).alias(_UNTIL)
        )

    def _merged(self, grouped: pl.DataFrame) -> pl.DataFrame:
        """Return the windows that come of windows and rows."""
        panes = []
        if self._emission.how == "panes":
            same = pl.col(_KNOWN) & pl.col(START).eq_missing(pl.col(_INTO))
            panes = [
                pl.col(_SINCE).sum() + (~pl.col(_KNOWN)).sum().cast(pl.Int64),
                pl.col(_PANE).max().fill_null(0),
                pl.col(_FIRED).any(),
                (pl.col(_TOLD) & same).any(),
                pl.col(_NEXT).min(),
            ]
        return (
            grouped.group_by(KEY, _INTO, maintain_order=True)
            .agg(
                *(pl.col(name).first() for name in self._by),
                pl.col(_UNTIL).first().alias(END),
                *self._windowing.merged(),
                *panes,
                (~pl.col(_KNOWN)).any().alias(_CAME),
                (~pl.col(_KNOWN)).all().alias(_BORN),
            )
            .rename({_INTO: START})
        )

    def _closed(self, end: str, watermark: int | None) -> pl.Expr:
        """Return whether nothing may become part of a window any more."""
        if watermark is None or not self._windowing.bounds:
            return pl.lit(value=False)
        return passed(end, watermark - self._emission.lateness - self._behind)

    def _due(self) -> pl.Expr:
        """Return when a window is to be looked at again."""
        over = pl.col(END) + pl.duration(microseconds=self._behind)
        closes = over + pl.duration(microseconds=self._emission.lateness)
        if self._emission.how != "panes":
            return closes.alias(_DUE)
        # A session that was over has become longer by a row: what is new waits for its end again.
        new = pl.when(~pl.col(_FIRED) | (pl.col(_SINCE) > 0)).then(over)
        return pl.min_horizontal(new, closes, pl.col(_NEXT)).alias(_DUE)

    # -- what comes out -----------------------------------------------------------------------

    def _changed(self, grouped: pl.DataFrame, windows: pl.DataFrame) -> list[pl.DataFrame]:
        """Return what the windows that have got rows were, and what they are."""
        came = windows.filter(_CAME)
        into = came.select(KEY, pl.col(START).alias(_INTO))
        was = grouped.filter(_KNOWN).join(
            into, on=[KEY, _INTO], how="semi", nulls_equal=True, maintain_order="left"
        )
        same = pl.col(START).eq_missing(pl.col(_INTO))
        stay = was.filter(same).select(KEY, START)
        of: Any = {"on": [KEY, START], "nulls_equal": True, "maintain_order": "left"}
        new = came.join(stay, how="anti", **of)
        after = came.join(stay, how="semi", **of)
        return [
            self._windowing.shown(was.filter(~same), **_change("delete")),
            self._windowing.shown(was.filter(same), **_change("update_preimage")),
            self._windowing.shown(after, **_change("update_postimage")),
            self._windowing.shown(new, **_change("insert")),
        ]

    def _panes(
        self, grouped: pl.DataFrame, windows: pl.DataFrame, watermark: int | None
    ) -> tuple[list[pl.DataFrame], pl.DataFrame]:
        """Return the results that come now, and the windows as they are after that."""
        emission, new = self._emission, pl.col(_SINCE) > 0
        over = passed(END, None if watermark is None else watermark - self._behind)
        if emission.every is not None:
            every = emission.every
            from_ = pl.max_horizontal(
                pl.col(START).to_physical(), pl.lit(watermark or 0, pl.Int64())
            )
            following = ((from_ // every + 1) * every).cast(pl.Datetime("us"))
            following = following.dt.replace_time_zone("UTC")
            following = pl.when(new & ~over).then(pl.coalesce(_NEXT, following))
            windows = windows.with_columns(following.alias(_NEXT))
        early = passed(_NEXT, watermark)
        if emission.count is not None:
            early = pl.col(_SINCE) >= emission.count
        elif emission.every is None:
            early = pl.lit(value=False)
        pane = (
            pl.when(over & ~pl.col(_FIRED) & ~pl.col(_BORN))
            .then(pl.lit(ON_TIME))
            .when(over & new)
            .then(pl.lit(LATE))
            .when(~over & new & early)
            .then(pl.lit(EARLY))
        )
        windows = windows.with_columns(pane.alias(PANE))
        now = pl.col(PANE).is_not_null()
        windows = windows.with_columns(
            (pl.col(_PANE) + now.cast(pl.Int32)).alias(_PANE),
            (pl.col(_FIRED) | over).alias(_FIRED),
        )
        told = windows.filter(now)
        more: dict[str, pl.Expr] = {PANE: pl.col(PANE), NUMBER: pl.col(_PANE)}
        outputs = []
        if self._changes:
            kind = pl.when(_TOLD).then(pl.lit("update_postimage")).otherwise(pl.lit("insert"))
            outputs = [
                self._taken_back(grouped),
                self._windowing.shown(told, **more, **{CHANGE_TYPE: kind}),
            ]
        else:
            outputs = [self._windowing.shown(told, **more)]
        rest = {_SINCE: pl.lit(0, pl.Int64()), _TOLD: pl.lit(value=True)}
        rest[_NEXT] = pl.lit(None, TIME)
        if emission.increments:
            rest |= {name: pl.lit(None, kind) for name, kind in self._parts.items()}
        after = [
            pl.when(now).then(value).otherwise(pl.col(name)).alias(name)
            for name, value in rest.items()
        ]
        return outputs, windows.with_columns(after)

    def _taken_back(self, grouped: pl.DataFrame) -> pl.DataFrame:
        """Return the sessions that were told and have become part of one with another start."""
        gone = pl.col(_KNOWN) & pl.col(_TOLD) & (pl.col(START) != pl.col(_INTO))
        return self._windowing.shown(
            grouped.filter(gone),
            **{PANE: pl.lit(None, pl.String()), NUMBER: pl.lit(None, pl.Int32())},
            **_change("delete"),
        )

    def _too_late(self, rows: pl.DataFrame, late: pl.DataFrame, watermark: int) -> pl.DataFrame:
        """Return rows whose window was closed when they came."""
        bounds = late.select(_ROW, pl.col(START).alias(WINDOW_START), pl.col(END).alias(WINDOW_END))
        found = rows.join(bounds, on=_ROW, how="inner", maintain_order="left")
        return self._windowing.late_rows(found, self.outputs[TOO_LATE], watermark)


def _change(kind: str) -> dict[str, pl.Expr]:
    return {CHANGE_TYPE: pl.lit(kind)}
