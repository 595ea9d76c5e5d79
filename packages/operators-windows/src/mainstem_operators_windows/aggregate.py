"""Operator `aggregate`: rows become totals, by keys and by windows of event time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Literal

from mainstem import (
    EVENTS,
    Changelog,
    Checked,
    Events,
    EventTime,
    Expressions,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    StateFacts,
    Stateful,
    Statement,
    option,
    watermark_hint,
)
from mainstem.columns import EVENT_TIME, Column, check_names, find_column, quoted

from mainstem_operators_windows.window import Window, windowed

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_BEFORE = "_before"
#: Among the node's counts: rows that are in no window.
WITHOUT_TIME = "without_time"


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
    emit: Literal["final", "changes"] = option(
        "final",
        description="`final`: one row for each window, once the watermark has passed it; `changes`: "
        "a changelog keyed by keys and window, with each batch's new totals.",
    )


class Aggregate(Operator, Stateful, Expressions, Checked):
    """Computes totals by keys, over windows of event time or for ever."""

    options: AggregateOptions
    ports = {"input": EVENTS}

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._counts = count(1)

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """Changes come batch by batch, so how the input was cut shows in them."""
        return OperatorCapabilities(batch_invariant=self.options.emit == "final")

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options = inputs.only, self.options
        columns = [find_column(given.columns, name, "by") for name in options.by]
        by = [column.name for column in columns]
        if options.window is not None:
            self._check_window(given, options.window)
            names = (options.window.start, options.window.end)
            check_names(names, "window")
            for name in names:
                if name.lower() in {key.lower() for key in by}:
                    hint = "Name the window's columns: `window: {..., start: from, end: to}`."
                    raise OptionError(f"a key has the name {name!r} too", option="by", hint=hint)
            columns += [Column(name, "timestamp") for name in names]
        keys = [column.name for column in columns]
        taken = {key.lower() for key in keys}
        for name in options.columns:
            if name.lower() in taken or name.startswith("_"):
                raise OptionError(f"the name {name!r} is taken", option="columns")
            taken.add(name.lower())
        columns += [Column(name) for name in options.columns]
        if options.emit == "final":
            if options.window is None:
                raise OptionError(
                    "totals without a window are never final",
                    option="emit",
                    hint="Write `emit: changes`, or add a `window`.",
                )
            if not _timed(given, options.window):
                raise OptionError(
                    f"final totals need a watermark on {options.window.on!r}",
                    option="window",
                    hint=watermark_hint(given, options.window.on),
                )
            # Each comes once the watermark is at its end.
            time = EventTime(options.window.end, timedelta(), punctual=True, passed=True, ends=True)
            return Events(columns, identity=keys, event_time=time)
        if options.window is not None and options.window.session is not None:
            raise OptionError("Spark gives sessions only when they are final", option="emit")
        if not keys:
            raise OptionError("a changelog needs a key: give `by` or `window`", option="by")
        return Changelog(columns, key=keys)

    def _check_window(self, given: Shape, window: Window) -> None:
        found = find_column(given.columns, window.on, "window")
        if found.type not in (None, "timestamp"):
            raise OptionError(f"{found.ddl} is no TIMESTAMP", option="window")

    def _keys(self, given: Shape) -> list[str]:
        """Return the columns of `by`, as they are written in the stream."""
        return [find_column(given.columns, name, "by").name for name in self.options.by]

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        options, given = self.options, inputs.only
        window = options.window
        watermarked = window is not None and _timed(given, window)
        grows = ""
        if window is None:
            grows = "every key is kept for ever." if options.by else ""
        elif not watermarked:
            grows = "without a watermark no window is ever dropped."
        return StateFacts(
            version=1,
            shaped_by={
                "by": options.by,
                "columns": options.columns,
                "emit": options.emit,
                "window": window.facts() if window else None,
            },
            grows=grows,
            holds=window.longest if window else timedelta(0),
            by_time=watermarked,
            output_mode="append" if options.emit == "final" else "update",
            waits=options.emit == "final",
        )

    def expressions(self) -> Mapping[str, str]:
        return {f"columns.{name}": text for name, text in self.options.columns.items()}

    def statements(self, inputs: Inputs[Shape]) -> list[Statement]:
        groups = [quoted(name) for name in self._keys(inputs.only)]
        if self.options.window is not None:
            groups.append(quoted(self.options.window.on))
        after = f") AS `value` FROM `input` GROUP BY {', '.join(groups) or '()'}"
        return [
            Statement(f"columns.{name}", text, "totals", after=after, column=name)
            for name, text in self.options.columns.items()
        ]

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        options, rows, given = self.options, inputs.only, ctx.shapes.only
        by = self._keys(given)
        groups: list[SparkColumn] = [F.col(quoted(name)) for name in by]
        if options.window is not None:
            if find_column(given.columns, options.window.on, "window").nullable:
                rows = self._counted(rows, options.window.on, ctx)
            on = options.window.on
            if (
                (time := given.event_time) is not None
                and time.ends
                and _timed(given, options.window)
            ):
                # The end of an interval is not in it, and Spark must know the time's column again.
                before = F.expr(f"{quoted(on)} - INTERVAL 1 MICROSECOND")
                rows = rows.withColumn(_BEFORE, before.alias(_BEFORE, metadata={EVENT_TIME: 0}))
                on = _BEFORE
            within = windowed(rows, options.window, on)
            rows = within.rows
            groups += within.groups
        totals = [F.expr(text).alias(name) for name, text in options.columns.items()]
        frame = rows.groupBy(*groups).agg(*totals)
        columns = [quoted(name) for name in by]
        if options.window is not None:
            start, end = quoted(options.window.start), quoted(options.window.end)
            columns += [f"{within.start} AS {start}", f"{within.end} AS {end}"]
        columns += [quoted(name) for name in options.columns]
        if options.emit == "changes":
            columns.append("'update_postimage' AS _change_type")
        return frame.selectExpr(*columns)

    def _counted(self, rows: DataFrame, time: str, ctx: OperatorContext) -> DataFrame:
        """Count the rows without a time, which are in no window: Spark leaves them out in silence.

        The core adds metrics named `NODE__...` to the node's counts; a name serves once in a query.
        """
        from pyspark.sql import functions as F  # noqa: N812

        found = F.count_if(F.col(quoted(time)).isNull()).alias(WITHOUT_TIME)
        return rows.observe(f"{ctx.node}__{WITHOUT_TIME}_{next(self._counts)}", found)


def _timed(given: Shape, window: Window) -> bool:
    """Whether the watermark is on the column of the windows."""
    time = given.event_time
    return time is not None and time.column.lower() == window.on.lower()
