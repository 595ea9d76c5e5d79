"""Operator `stream_table_join`: each event gets the row of a table that belongs to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from mainstem import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    EVENTS,
    Accepts,
    Changelog,
    Deriving,
    Duration,
    Events,
    Inputs,
    LoadedFirst,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    PositiveDuration,
    Shape,
    StateFacts,
    option,
    watermark_hint,
)
from mainstem.columns import Column, quoted
from mainstem_keyed_state import KeyedOperator, event_time, lacking

from mainstem_operators_joins.columns import (
    check_columns,
    check_ordered,
    pairs,
    taken_columns,
)

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from mainstem_operators_joins.stream_table_logic import StreamTableSettings

STREAM, TABLE = "stream", "table"
#: The reserved column that tells a row from every other, where it is made.
IDENTITY = "_id"
_MICROSECOND = timedelta(microseconds=1)


class UsedVersion(Options):
    """Which facts of the version that an event met go into the output, under which names."""

    sequence: str | None = option(
        None, description="The column for the version's sequence.", example="weather_version"
    )
    since: str | None = option(
        None,
        description="The column for the time since when the version holds.",
        example="weather_since",
    )


class StreamTableOptions(Options):
    """Options of `stream_table_join`."""

    on: list[str] | dict[str, str] = option(
        min_length=1,
        description="The columns that are equal: names that both sides have, or a map from the "
        "stream's column to the table's. On the table's side they are its key.",
        example={"city": "name"},
    )
    join: Literal["inner", "left"] = option(
        "inner",
        description="What becomes of an event without a row of the table: `inner` sends it to "
        "`unmatched`, `left` joins it with nulls.",
    )
    as_of: Literal["event_time", "latest"] = option(
        "event_time",
        description="Which version of the table's row: the one that holds at the event's time (by "
        "the event-time columns of both sides), or the latest that is known.",
    )
    within: PositiveDuration | None = option(
        None,
        description="As of event time: how far the time of a version may be from the event's; one that "
        "is further is none. So long, by the watermark, versions are kept.",
        example="1 hour",
    )
    direction: Literal["backward", "forward", "nearest"] = option(
        "backward",
        description="As of event time: `backward`, the version that holds at the event's time; "
        "`forward`, the first that begins then or later, within `within`; `nearest`, the one that begins "
        "nearest.",
    )
    when: Literal["complete", "now"] | None = option(
        None,
        description="`complete`: once the watermark of both sides has passed the event; the output "
        "does not depend on which side came first. `now`: at once, with what is known. When left out, "
        "`complete` as of event time and `now` with `as_of: latest`.",
    )
    wait: Duration | None = option(
        None,
        description="With `when: now`: an event for whose key no version is known waits until events "
        "are so much further in time (on both sides).",
        example="10 seconds",
    )
    take: list[str] | dict[str, str] | None = option(
        None,
        description="The table's columns in the output: a list, or by new name. When left out: all but "
        "those in `on`.",
        example={"celsius": "temperature"},
    )
    version: UsedVersion | None = option(
        None,
        description="Tells of each output row which version of the table's row it was made of.",
    )
    deletes_within: PositiveDuration | None = option(
        None,
        description="How long, by the watermark, a deleted key of the table is remembered, so that "
        "an older change that comes late does not bring it back; for ever when left out.",
        example="1 day",
        advanced=True,
    )


class StreamTableJoin(KeyedOperator, LoadedFirst, Deriving):
    """Joins events with a table's rows: as of the event's time, or the latest ones."""

    options: StreamTableOptions
    ports = {STREAM: EVENTS, TABLE: Accepts((Changelog,))}

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """What is joined `now` depends on what had come by then."""
        return OperatorCapabilities(passes_ids=True, batch_invariant=self._when == "complete")

    @property
    def _when(self) -> Literal["complete", "now"]:
        default: Literal["complete", "now"] = (
            "complete" if self.options.as_of == "event_time" else "now"
        )
        return self.options.when or default

    @property
    def _keeps_event_time(self) -> bool:
        """Whether what comes out is never behind the watermark, as steps with windows below ask."""
        return self._when == "now" and self.options.wait is None

    @property
    def _ahead(self) -> timedelta:
        """How far after an event's time a version may begin that it meets."""
        looks_back = self.options.direction == "backward"
        return timedelta(0) if looks_back else self.options.within or timedelta(0)

    def loaded_first(self) -> frozenset[str]:
        """Return the port whose rows are there before the first event is joined."""
        return frozenset({TABLE})

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        stream = inputs[STREAM]
        self._check(stream, self._changes(inputs))
        added = [
            replace(column, name=name, nullable=True)
            for name, column in self._takes(inputs).items()
        ]
        shape = stream.with_columns((*stream.columns, *added, *self._told(inputs)))
        return shape if self._keeps_event_time else replace(shape, event_time=None)

    def made_of(self, inputs: Inputs[Shape]) -> Mapping[str, Iterable[tuple[str, str]]]:
        found = {name: [(STREAM, name)] for name in inputs[STREAM].names}
        taken = {name: [(TABLE, column.name)] for name, column in self._takes(inputs).items()}
        table = [(TABLE, name) for name in inputs[TABLE].names]
        return {**found, **taken, **{column.name: table for column in self._told(inputs)}}

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        events = Events(inputs[STREAM].columns)
        found = {"late_changes": self._late_changes(inputs), **super().outputs(inputs)}
        if self.options.join == "inner":
            found["unmatched"] = events
        return found

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        options = self.options
        wait = self._wait(inputs)
        return StateFacts(
            version=1,
            keyed=True,
            shaped_by={
                "on": pairs(options.on),
                "as_of": options.as_of,
                "when": self._when,
                "waits": self._when == "complete" or wait is not None,
                **({"direction": options.direction} if options.direction != "backward" else {}),
                "columns": [c.name for c in self._takes(inputs).values()],
                "stream": list(inputs[STREAM].names),
            },
            gains=frozenset({"columns", "stream"}),
            grows=""
            if options.within is not None
            else "the table itself is kept: the newest version of every key"
            + ("." if options.deletes_within else ", deleted keys too (see `deletes_within`)."),
            holds=max(wait or timedelta(0), self._ahead),
        )

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        on = pairs(self.options.on)
        return {
            STREAM: [quoted(name) for name in on],
            TABLE: [quoted(name) for name in on.values()],
        }

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        stream, table = inputs[STREAM], self._changes(inputs)
        timed = self.options.as_of == "event_time" or self._wait(inputs) is not None
        key = list(table.key)
        times = [time for time in (event_time(table),) if time is not None]
        return {
            STREAM: lacking(filter(None, [event_time(stream) if timed else None])),
            TABLE: lacking([*key, *times, COMMIT_VERSION]),
        }

    def in_time(self, inputs: Inputs[Shape]) -> str | None:
        return STREAM if self.options.as_of == "event_time" else None

    def rows(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, DataFrame]:
        shapes = ctx.shapes
        table, time = inputs[TABLE], event_time(shapes[TABLE])
        check_ordered(dict(table.dtypes).get(COMMIT_VERSION), "the table's changes")
        names = [column.name for column in self._late_changes(shapes).columns]
        names += [name for name in (IDENTITY,) if name in table.columns]
        told = [
            _since(name) if name == time and self._changes(shapes).preimages else quoted(name)
            for name in names
        ]
        changes = table.where(f"{CHANGE_TYPE} <> 'update_preimage'").selectExpr(*told)
        return {STREAM: inputs[STREAM], TABLE: changes}

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_joins.stream_table_logic import StreamTableLogic

        return StreamTableLogic(self._settings(inputs), rows[STREAM], rows[TABLE])

    def types(
        self, rows: Mapping[str, DataFrame], inputs: Inputs[Shape]
    ) -> Mapping[str, Mapping[str, str | DataType]]:
        kinds = rows[TABLE].schema
        takes = {name: column.name for name, column in self._takes(inputs).items()}
        return {
            "": {n: kinds[c].dataType for n, c in takes.items() if n != c},
            "late_changes": {name: kinds[name].dataType for name in kinds.names},
        }

    # -- what the options mean for the inputs -----------------------------------------------

    def _changes(self, inputs: Inputs[Shape]) -> Changelog:
        table = inputs[TABLE]
        assert isinstance(table, Changelog)  # noqa: S101
        return table

    def _check(self, stream: Shape, table: Changelog) -> None:
        options = self.options
        on = pairs(options.on)
        check_columns(stream, on, "on", "the stream")
        check_columns(table, on.values(), "on", "the table")
        if {name.lower() for name in table.key} != {name.lower() for name in on.values()}:
            raise OptionError(
                f"the table's key is {', '.join(table.key)}, and `on` names {', '.join(on.values())}",
                option="on",
                hint="A join finds a table's row by its whole key.",
            )
        if table.sequence is None:
            raise OptionError(
                "the table's changes have no sequence: they come batch by batch",
                hint="Write them to a table or topic, and read that with a sequence of its own. Totals "
                "of windows, which are final, are made a table by `changelog` with the window's start as "
                "`sequence`, and joined with `as_of: latest`.",
            )
        check_ordered(table.sequence_type or None, "the table's changes")
        if options.as_of == "latest" and options.when == "complete":
            raise OptionError(
                "which version is the latest depends on when an event is joined, so it can't be complete",
                option="when",
                hint="Write `as_of: event_time`, or leave out `when`.",
            )
        if options.as_of == "latest" and (options.within or options.direction != "backward"):
            at_fault = "within" if options.within else "direction"
            raise OptionError("goes by event time, and the join does not", option=at_fault)
        if options.direction != "backward" and options.within is None:
            hint = "Write how far a version may be from an event: `within: 1 hour`."
            raise OptionError("needs an end", option="direction", hint=hint)
        if options.direction != "backward" and self._when == "now":
            message = "which version comes next is not known now"
            raise OptionError(message, option="direction", hint="Leave out `when`.")
        if options.wait is not None and self._when == "complete":
            raise OptionError("is for `when: now`; a complete join waits by itself", option="wait")
        timed = "as_of" if options.as_of == "event_time" else ""
        _check_time("stream", stream, timed or ("wait" if options.wait is not None else ""))
        _check_time("table", table, timed or ("deletes_within" if options.deletes_within else ""))

    def _takes(self, inputs: Inputs[Shape]) -> dict[str, Column]:
        """Return the table's columns that go into the output, by the name they get there.

        Raises:
            OptionError: one is not there, or its name can't be had.
        """
        keys = pairs(self.options.on).values()
        beside = inputs[STREAM].names
        return taken_columns(
            self.options.take, inputs[TABLE], "the table", beside=beside, keys=keys
        )

    def _told(self, inputs: Inputs[Shape]) -> list[Column]:
        version = self.options.version
        if version is None:
            return []
        taken = [*inputs[STREAM].names, *self._takes(inputs)]
        found = []
        table = self._changes(inputs)
        kinds = ((version.sequence, table.sequence_type or None), (version.since, "timestamp"))
        for name, kind in kinds:
            if name is not None:
                _free(name, taken, "version")
                taken.append(name)
                found.append(Column(name, kind))
        if version.since is not None and table.event_time is None:
            raise OptionError("the table has no event time", option="version")
        return found

    def _late_changes(self, inputs: Inputs[Shape]) -> Events:
        """Return the table's columns that are looked at, with what each change is."""
        table = self._changes(inputs)
        time = [table.event_time.column] if table.event_time else []
        taken = [column.name for column in self._takes(inputs).values()]
        wanted = {name.lower() for name in (*table.key, *time, *taken)}
        return Events(
            [
                *(replace(c, nullable=True) for c in table.columns if c.name.lower() in wanted),
                Column(CHANGE_TYPE, "string"),
                Column(COMMIT_VERSION, table.sequence_type or None),
            ]
        )

    def _wait(self, inputs: Inputs[Shape]) -> timedelta | None:
        """Return how far the watermark passes an event that waits for a version, or None."""
        if self.options.wait is None:
            return None
        times = [shape.event_time for shape in inputs.values() if shape.event_time is not None]
        wait = self.options.wait - min(time.delay for time in times)
        # Once the watermark has passed the event, no version comes that holds at its time.
        return min(wait, _MICROSECOND) if self.options.as_of == "event_time" else wait

    def _settings(self, inputs: Inputs[Shape]) -> StreamTableSettings:
        from mainstem_operators_joins.stream_table_logic import StreamTableSettings

        options, stream, table = self.options, inputs[STREAM], self._changes(inputs)
        wait, within = self._wait(inputs), options.deletes_within
        version = options.version or UsedVersion()
        return StreamTableSettings(
            as_of=options.as_of,
            when=self._when,
            join=options.join,
            table_key=table.key,
            stream_time=event_time(stream),
            table_time=event_time(table),
            takes={name: column.name for name, column in self._takes(inputs).items()},
            wait=None if wait is None else wait // _MICROSECOND,
            deletes_within=None if within is None else within // _MICROSECOND,
            version_sequence=version.sequence,
            version_time=version.since,
            table_punctual=table.event_time is not None and table.event_time.punctual,
            within=None if options.within is None else options.within // _MICROSECOND,
            direction=options.direction,
        )


def _since(time: str) -> str:
    """Return the SQL of the time since when a change holds, where deletions carry the row as it was."""
    gone = f"{CHANGE_TYPE} = 'delete'"
    name = quoted(time)
    return f"IF({gone}, coalesce({COMMIT_TIMESTAMP}, {name}), {name}) AS {name}"


def _check_time(side: str, shape: Shape, option: str) -> None:
    """Look whether a side has an event time, if an option asks for one."""
    if not option:
        return
    time = shape.event_time
    if time is None:
        hint = watermark_hint(shape, where=f"the node at port {side}")
        if option == "as_of":
            hint += " Or write `as_of: latest`."
        raise OptionError(f"the {side} has no event time", option=option, hint=hint)
    column = shape.column(time.column)
    if column is not None and column.type not in (None, "timestamp"):
        raise OptionError(f"the {side}'s event time is no TIMESTAMP: {column.ddl}", option=option)


def _free(name: str, taken: Iterable[str], at: str) -> None:
    if name.startswith("_") or name.lower() in {other.lower() for other in taken}:
        raise OptionError(f"the name {name!r} is taken", option=at)
