"""Operator `aggregate`: rows become totals, by keys and by windows of event time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Literal

from mainstem import (
    ANYTHING,
    CHANGE_TYPE,
    REJECTED,
    Changelog,
    Checked,
    Deriving,
    Duration,
    Events,
    EventTime,
    Expressions,
    Inputs,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    StateFacts,
    Statement,
    option,
    watermark_hint,
)
from mainstem.columns import EVENT_TIME, Column, check_names, find_column, quoted
from mainstem_keyed_state import KeyedOperator, event_time

from mainstem_operators_windows.emission import NUMBER, PANE, Panes
from mainstem_operators_windows.native import spark_totals
from mainstem_operators_windows.table_totals import (
    LATE_CHANGES,
    aside_columns,
    asides,
    check_table,
)
from mainstem_operators_windows.table_totals import ports as table_ports
from mainstem_operators_windows.totals.calls import Call, Total, read_total
from mainstem_operators_windows.window import Window, windowed

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic, Port
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField

    from mainstem_operators_windows.totals.accumulator import Accumulator
    from mainstem_operators_windows.windows_logic import Emission

_BEFORE = "_before"
_MICROSECOND = timedelta(microseconds=1)
#: Among the node's counts: rows that are in no window.
WITHOUT_TIME = "without_time"
#: On rows that came too late: their window, the watermark of their batch, how far they were behind it.
_LATE_WINDOW = (Column("_window_start", "timestamp"), Column("_window_end", "timestamp"))
_LATE = (Column("_batch_watermark", "timestamp"), Column("_late_ms", "bigint"))


class AggregateOptions(Options):
    """Options of `aggregate`."""

    by: list[str] = option(list, description="The key columns.")
    window: Window | None = option(
        None, description="Windows of event time; none: totals for ever."
    )
    columns: dict[str, str] = option(
        min_length=1,
        description="The totals: SQL aggregate expressions by name.",
        example={"orders": "count(*)", "cents": "sum(cents)"},
    )
    emit: Literal["final", "changes"] | Panes = option(
        "final",
        description="`final`: one row for each window, once the watermark has passed it; `changes`: "
        "a changelog keyed by keys and window, with each batch's new totals; or when results come before "
        "a window is over and after.",
    )
    lateness: Duration | None = option(
        None,
        description="How long after its end, by the watermark, a window stays open for rows that come "
        "late. What is later still comes out of `late`, as it does with `0 seconds`.",
        example="1 hour",
    )


class Aggregate(KeyedOperator, Expressions, Checked, Deriving):
    """Computes totals by keys, of events over windows of event time or for ever, or of a table.

    On Spark's own state where Spark has such totals, else on state by key.
    """

    options: AggregateOptions
    ports = {"input": ANYTHING}
    nulls_equal = True

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._counts = count(1)

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """What comes batch by batch shows how the input was cut."""
        return OperatorCapabilities(batch_invariant=self.options.emit == "final")

    def _by_key(self, given: Shape) -> str:
        """Return why state by key is used; empty where Spark's own is."""
        window, options = self.options.window, self.options
        if isinstance(given, Changelog):
            return "Spark can't take back what a table no longer has"
        if window is not None and window.by_rows:
            return f"Spark has no {'sliding windows' if window.sliding else 'windows by count'}"
        if isinstance(options.emit, Panes):
            return "Spark gives one result of a window"
        if options.lateness is not None:
            return "Spark drops late rows"
        if window is not None and window.session is not None and options.emit == "changes":
            return "Spark gives sessions only when they are final"
        if self._distinct():
            return "Spark computes nothing over DISTINCT values on streams"
        return ""

    def _distinct(self) -> bool:
        """Whether a total is over DISTINCT values; one that can't be read is not ours to compute."""
        try:
            return any(call.distinct for call in self._calls())
        except OptionError:
            return False

    @property
    def _panes(self) -> Panes | None:
        return self.options.emit if isinstance(self.options.emit, Panes) else None

    # -- what comes out -----------------------------------------------------------------------

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options, window = inputs.only, self.options, self.options.window
        by = [find_column(given.columns, name, "by") for name in options.by]
        if isinstance(given, Changelog):
            self._check_table(given)
        bounds = self._window_columns(given, by)
        self._check_emission(given)
        columns = [*by, *bounds]
        if window is not None and window.count is not None:
            columns.append(Column(window.number, "bigint"))
        keys = [column.name for column in columns]
        taken = {key.lower() for key in keys}
        more = [PANE, NUMBER] if self._panes else []
        for name in (*options.columns, *more):
            if name.lower() in taken or name.startswith("_"):
                raise OptionError(f"the name {name!r} is taken", option="columns")
            taken.add(name.lower())
        columns += [Column(name) for name in options.columns]
        if self._by_key(given):
            self._calls()  # which must be such that state by key can do
        if self._panes is not None:
            columns += [Column(PANE, "string"), Column(NUMBER, "int")]
            if self._panes.results == "increments":
                return Events(columns, identity=[*keys, NUMBER])
        if options.emit == "final":
            return Events(columns, identity=keys, event_time=self._final_time(given))
        if window is not None and window.session is not None:
            keys.remove(window.end)  # which moves
        if not keys:
            raise OptionError("a changelog needs a key: give `by` or `window`", option="by")
        preimages = bool(self._by_key(given)) and options.emit == "changes"
        return Changelog(columns, key=keys, preimages=preimages)

    def made_of(self, inputs: Inputs[Shape]) -> Mapping[str, Iterable[tuple[str, str]]]:
        window = self.options.window
        if window is None:
            return {}
        time = [("input", window.on)]
        return {window.start: time, window.end: time, window.number: time}

    def _window_columns(self, given: Shape, by: Sequence[Column]) -> list[Column]:
        window = self.options.window
        if window is None:
            return []
        found = find_column(given.columns, window.on, "window")
        if found.type not in (None, "timestamp"):
            raise OptionError(f"{found.ddl} is no TIMESTAMP", option="window")
        names = [window.start, window.end, *([window.number] if window.count else [])]
        check_names(names, "window")
        for name in names:
            if name.lower() in {key.name.lower() for key in by}:
                hint = "Name the window's columns: `window: {..., start: from, end: to}`."
                raise OptionError(f"a key has the name {name!r} too", option="by", hint=hint)
        return [Column(name, "timestamp") for name in names[:2]]

    def _check_table(self, given: Changelog) -> None:
        options = self.options
        if options.window is not None:
            hint = "Compute what rows are grouped by in `select`, and write it into `by`."
            raise OptionError("the rows of a table are in no windows", option="window", hint=hint)
        if options.emit != "changes":
            message = "the totals of a table change with it"
            raise OptionError(message, option="emit", hint="Write `emit: changes`.")
        check_table(given, self._calls())

    def _check_emission(self, given: Shape) -> None:
        options, window, panes = self.options, self.options.window, self._panes
        if window is None:
            if options.emit == "final":
                raise OptionError(
                    "totals without a window are never final",
                    option="emit",
                    hint="Write `emit: changes`, or add a `window`.",
                )
            if options.lateness is not None:
                raise OptionError("without a window nothing is late", option="lateness")
            if panes is not None and panes.early is None:
                message = "without a window there are early results alone"
                raise OptionError(message, option="emit", hint="Write `early: {count: ...}`.")
        timed = _timed(given, window)
        if window is not None and not timed and self._goes_by_watermark:
            what = "final totals need" if options.emit == "final" else "`emit` and `lateness` need"
            raise OptionError(
                f"{what} a watermark on {window.on!r}",
                option="window",
                hint=watermark_hint(given, window.on),
            )
        if panes is None:
            if window is not None and window.by_rows and options.emit != "final":
                raise OptionError("windows that go by rows come when they are final", option="emit")
            if window is not None and window.by_rows and options.lateness:
                hint = "Give the watermark a longer delay."
                message = "windows that go by rows are over at once"
                raise OptionError(message, option="lateness", hint=hint)
            return
        if window is not None and window.by_rows:
            raise OptionError("windows that go by rows come when they are final", option="emit")
        if panes.early is not None and panes.early.every is not None and given.event_time is None:
            hint = watermark_hint(given)
            raise OptionError("`every` goes by a watermark", option="emit", hint=hint)
        if panes.late == "each" and not options.lateness:
            message = "`late: each` is for as long as `lateness` keeps a window open"
            raise OptionError(message, option="lateness")
        if panes.late == "none" and options.lateness:
            message = "late rows would change windows that do not come out again"
            raise OptionError(message, option="emit", hint="Write `late: each`.")
        if panes.results == "increments" and window is not None and window.session is not None:
            message = "increments of sessions can't be added up, for sessions merge"
            raise OptionError(message, option="emit")

    @property
    def _goes_by_watermark(self) -> bool:
        """Whether nothing comes out of a window without a watermark, or not what is asked for."""
        return self.options.emit != "changes" or self.options.lateness is not None

    def _final_time(self, given: Shape) -> EventTime:
        window = self.options.window
        assert window is not None  # noqa: S101
        return EventTime(
            window.end,
            timedelta(),
            punctual=True,
            passed=True,
            ends=not window.by_rows,
            behind=(given.event_time.behind if given.event_time else timedelta())
            + (self.options.lateness or timedelta()),
        )

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        window = self.options.window
        if isinstance(inputs.only, Changelog):
            return {"late_changes": LATE_CHANGES, "rejected": REJECTED}
        if not self._by_key(inputs.only) or window is None or not _timed(inputs.only, window):
            return {}
        bounds = () if window.by_rows else _LATE_WINDOW
        return {"late": Events([*inputs.only.columns, *bounds, *_LATE])}

    # -- what it keeps ------------------------------------------------------------------------

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        options, given, window = self.options, inputs.only, self.options.window
        timed = _timed(given, window)
        grows = ""
        if isinstance(given, Changelog):
            grows = "what is totalled of each row of the table is kept, and every group."
        elif window is None:
            grows = "every key is kept for ever." if options.by else ""
        elif window.count is not None:
            grows = "the last rows of every key are kept." if options.by else ""
        elif not timed:
            grows = "without a watermark no window is ever dropped."
        shaped_by: dict[str, object] = {
            "by": options.by,
            "columns": options.columns,
            "window": window.facts() if window else None,
        }
        panes, why = self._panes, self._by_key(given)
        shaped_by["emit"] = "panes" if panes else options.emit
        if panes is not None:
            shaped_by["results"] = panes.results
        if why:
            shaped_by["kept"] = "by key"
        if isinstance(given, Changelog):
            shaped_by["key"] = list(given.key)
        lateness = options.lateness or timedelta()
        return StateFacts(
            version=1,
            shaped_by=shaped_by,
            grows=grows,
            holds=window.longest + lateness if window else timedelta(0),
            by_time=timed,
            output_mode="append" if why or options.emit == "final" else "update",
            waits=options.emit == "final",
            keyed=bool(why),
            kept=f"by key: {why}" if why else "in Spark's own aggregation",
        )

    # -- SQL ----------------------------------------------------------------------------------

    def expressions(self) -> Mapping[str, str]:
        return {f"columns.{name}": text for name, text in self.options.columns.items()}

    def statements(self, inputs: Inputs[Shape]) -> list[Statement]:
        groups = [quoted(name) for name in self._keys(inputs.only)]
        if self.options.window is not None:
            groups.append(quoted(self.options.window.on))
        after = f") AS `value` FROM `input` GROUP BY {', '.join(groups) or '()'}"
        distinct = bool(self._by_key(inputs.only))
        return [
            Statement(
                f"columns.{name}", text, "totals", after=after, column=name, distinct=distinct
            )
            for name, text in self.options.columns.items()
        ]

    def _totals(self) -> Iterator[Total]:
        return (read_total(name, text) for name, text in self.options.columns.items())

    def _calls(self) -> list[Call]:
        """Return the calls of all totals, each once."""
        return list(dict.fromkeys(call for total in self._totals() for call in total.calls))

    # -- on Spark -----------------------------------------------------------------------------

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        if self._by_key(ctx.shapes.only):
            return self._finished(super().apply(inputs, ctx), inputs.only, ctx.shapes.only)
        rows, on = self._timed_rows(inputs.only, ctx)
        return spark_totals(
            rows,
            by=self._keys(ctx.shapes.only),
            window=self.options.window,
            on=on,
            columns=self.options.columns,
            changes=self.options.emit == "changes",
        )

    def _keys(self, given: Shape) -> list[str]:
        """Return the columns of `by`, as they are written in the stream."""
        return [find_column(given.columns, name, "by").name for name in self.options.by]

    def _timed_rows(self, rows: DataFrame, ctx: OperatorContext) -> tuple[DataFrame, str]:
        """Return rows with the column of the time that windows go by, and its name."""
        from pyspark.sql import functions as F  # noqa: N812

        window, given = self.options.window, ctx.shapes.only
        if window is None:
            return rows, ""
        column = find_column(given.columns, window.on, "window")
        if column.nullable and column.name not in ctx.timed:
            rows = self._counted(rows, window.on, ctx)
        time = given.event_time
        own = window.session is not None or window.by_rows  # bounds that are times of rows
        if own or time is None or not time.ends or not _timed(given, window):
            return rows, window.on
        # The end of an interval is not in it, and Spark must know the time's column again.
        before = F.expr(f"{quoted(window.on)} - INTERVAL 1 MICROSECOND")
        return rows.withColumn(_BEFORE, before.alias(_BEFORE, metadata={EVENT_TIME: 0})), _BEFORE

    def _counted(self, rows: DataFrame, time: str, ctx: OperatorContext) -> DataFrame:
        """Count the rows without a time, which are in no window: Spark leaves them out in silence.

        The core adds metrics named `NODE__...` to the node's counts; a name serves once in a query.
        """
        from pyspark.sql import functions as F  # noqa: N812

        found = F.count_if(F.col(quoted(time)).isNull()).alias(WITHOUT_TIME)
        return rows.observe(f"{ctx.node}__{WITHOUT_TIME}_{next(self._counts)}", found)

    # -- on state by key ----------------------------------------------------------------------

    def ports_of(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, Port]:
        given = ctx.shapes.only
        if isinstance(given, Changelog):
            return table_ports(inputs.only, given, self._keys(given), self._calls(), ctx)
        return super().ports_of(inputs, ctx)

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        """Return the key; where rows bring their windows, with the window's start."""
        from mainstem_operators_windows.windows_logic import START

        window = self.options.window
        within = window is not None and window.session is None and not window.by_rows
        found = [quoted(name) for name in self._keys(inputs.only)]
        return {"input": [*found, *([START] if within else [])] or ["1"]}

    def rows(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, DataFrame]:
        from mainstem_operators_windows.totals.frames import read_columns
        from mainstem_operators_windows.windows_logic import AT, END, START, TIE

        given, window = ctx.shapes.only, self.options.window
        time = event_time(given)
        rows, on = self._timed_rows(inputs.only, ctx)
        wanted = [*self._keys(given)]
        if "late" in ctx.wanted:
            wanted = [column.name for column in given.columns]
        columns = [quoted(name) for name in dict.fromkeys(wanted)]
        if window is not None:
            rows = rows.where(f"{quoted(on)} IS NOT NULL")
            columns.append(f"{quoted(on)} AS {AT}")
            if window.session is None and not window.by_rows:
                within = windowed(rows, window, on)
                rows = within.rows
                columns += [f"{within.start} AS {START}", f"{within.end} AS {END}"]
        elif time is not None:
            columns.append(f"{quoted(time)} AS {AT}")
        read = read_columns(self._calls(), rows)
        if window is not None or time is not None:
            columns.append(f"{_tie(rows, read)} AS {TIE}")
        return {"input": rows.selectExpr(*columns, *read)}

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_keyed_state.changes import DELETED, SEQUENCE

        from mainstem_operators_windows import ordered_logic
        from mainstem_operators_windows.table_totals_logic import TableTotalsLogic
        from mainstem_operators_windows.windows_logic import Windowing, WindowsLogic

        given, window, schema = inputs.only, self.options.window, rows["input"]
        if isinstance(given, Changelog):
            by = self._keys(given)
            aside = [*asides(given, by).values(), SEQUENCE, DELETED]
            return TableTotalsLogic(schema, by, self._accumulators(schema, given), aside)
        windowing = Windowing(
            self._keys(given),
            self._accumulators(schema, given),
            None if window is None else (window.start, window.end),
            {c.name: schema[c.name] for c in given.columns if c.name in schema},
        )
        if window is not None and window.sliding is not None:
            length = window.sliding // _MICROSECOND
            return ordered_logic.SlidingLogic(schema, windowing, length)
        if window is not None and window.count is not None:
            size, every = window.count, window.slide
            if every is None or every == size:
                return ordered_logic.CountedLogic(schema, windowing, window.number, size)
            return ordered_logic.SlidingCountLogic(schema, windowing, window.number, size, every)
        gap = window.session // _MICROSECOND if window and window.session else None
        return WindowsLogic(schema, windowing, self._emission(), gap)

    def _emission(self) -> Emission:
        from mainstem_operators_windows.windows_logic import Emission

        panes = self._panes
        lateness = (self.options.lateness or timedelta()) // _MICROSECOND
        if panes is None:
            return Emission(self.options.emit, lateness)  # type: ignore[arg-type]
        early = panes.early
        return Emission(
            "panes",
            lateness,
            every=early.every // _MICROSECOND if early and early.every else None,
            count=early.count if early else None,
            increments=panes.results == "increments",
        )

    def _accumulators(self, rows: pl.Schema, given: Shape) -> list[Accumulator]:
        from mainstem_operators_windows.totals.functions import accumulators_of
        from mainstem_operators_windows.windows_logic import AT, TIE

        if isinstance(given, Changelog):
            return accumulators_of(self._calls(), rows, {}, weighted=True)
        order = {name: rows[name] for name in (AT, TIE) if name in rows}
        return accumulators_of(self._calls(), rows, order)

    def types(
        self, rows: Mapping[str, DataFrame], inputs: Inputs[Shape]
    ) -> Mapping[str, Mapping[str, str | DataType]]:
        from mainstem_keyed_state import polars_schema

        from mainstem_operators_windows.totals.frames import told_types

        accumulators = self._accumulators(polars_schema(rows["input"]), inputs.only)
        return {"": told_types(accumulators, rows["input"])}

    def _finished(self, frame: DataFrame, rows: DataFrame, shape: Shape) -> DataFrame:
        """Return the totals, of what the aggregate functions give."""
        from mainstem_keyed_state import polars_schema

        from mainstem_operators_windows.totals.frames import read_columns, results

        calls = self._calls()
        kinds = polars_schema(rows.selectExpr(*read_columns(calls, rows)))
        accumulators = self._accumulators(kinds, shape)
        given_by = results(calls, accumulators, rows)
        given = self.shape(Inputs(input=shape)).names
        # Rows of other outputs have no totals to compute with.
        main = "_output IS NULL" if "_output" in frame.columns else "true"
        totals = {
            total.name: f"IF({main}, {total.sql(given_by)}, NULL) AS {quoted(total.name)}"
            for total in self._totals()
        }
        told = {name for each in accumulators for name in each.told}
        columns = [totals.get(name, quoted(name)) for name in given]
        if isinstance(shape, Changelog):
            columns += [CHANGE_TYPE, "_output", *aside_columns(shape, self._keys(shape))]
        else:
            rest = [name for name in frame.columns if name not in given and name not in told]
            columns += map(quoted, rest)
        return frame.selectExpr(*columns)


def _tie(rows: DataFrame, read: Sequence[str]) -> str:
    """Return SQL for what puts rows of one time in an order that is the same however they come."""
    if "_id" in rows.columns:
        return "_id"
    kinds: Iterable[StructField] = rows.selectExpr(*read).schema if read else ()
    # Of maps and variants there is no hash.
    hashed = [
        sql.rpartition(" AS ")[0]
        for sql, field in zip(read, kinds, strict=True)
        if not any(kind in field.dataType.simpleString() for kind in ("map<", "variant"))
    ]
    return f"xxhash64({', '.join(hashed) or '1'})"


def _timed(given: Shape, window: Window | None) -> bool:
    """Whether the watermark is on the column of the windows."""
    time = given.event_time
    return time is not None and window is not None and time.column.lower() == window.on.lower()
