"""Operator `decide`: commands become events, or are refused, by what the events before them have made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mainstem import (
    REJECTED,
    Events,
    Inputs,
    OptionError,
    PositiveDuration,
    Schema,
    Shape,
    StateFacts,
    option,
)
from mainstem.columns import Column, check_names, find_column
from mainstem.functions import FunctionName
from mainstem_keyed_state import event_time, lacking
from mainstem_keyed_state.by_key import needed_time

from mainstem_operators_eventsourcing.base import (
    Root,
    RootOptions,
    beyond_python,
    order_of,
    whole_number,
)

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

STATE, ANSWERS = "state", "answers"
ACCEPTED, REASON, EVENTS_OF, REPEATED = "accepted", "reason", "events", "repeated"


class DecideOptions(RootOptions):
    """Options of `decide`."""

    call: FunctionName = option(
        description="A class, as `module:Class`, with two functions. `decide(state, command)` returns "
        "the events that a command brings about, a list of dictionaries, or raises `Rejected` with the "
        "reason why it must not be done; `evolve(state, event)` returns the state after an event, or "
        "None for none. The state is a dictionary, or None before the first event, unless the class has "
        "`initial`. Both depend on nothing else.",
        example="shop:Cart",
    )
    events: Schema = option(
        description="The columns of events, beside those of the key; what an event leaves out is null.",
        example="type STRING, item STRING, quantity INT",
    )
    version: str = option(
        "version",
        min_length=1,
        description="The name of the column with an event's number among those of its key, from 1.",
    )
    expected: str | None = option(
        None,
        description="The column of commands with the version that the sender knows; a command is refused "
        "when another one is there. Null for any.",
    )
    command: str | None = option(
        None,
        description="The column with a command's id. A command that is seen again brings about nothing, "
        "and is answered as it was; see `remember`.",
    )
    remember: PositiveDuration | None = option(
        None, description="How long ids of commands are remembered, in event time."
    )
    order: list[str] = option(
        list,
        description="The columns by which commands of a key follow each other within a batch; when left "
        "out, their place in the log (`partition`, `position`), or their event time.",
    )


class Decide(Root):
    """Calls `decide` with each command and its key's state, one at a time, and `evolve` with its events.

    Events have the key, their own columns, a version, the command's id and its event time. The output
    `state` is a table of the states, `rejected` has commands that were refused, and `answers` what became
    of each command, where they have ids.
    """

    options: DecideOptions

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options = inputs.only, self.options
        if (options.command is None) != (options.remember is None):
            lacks = "remember" if options.remember is None else "command"
            raise OptionError("ids of commands are remembered for some time", option=lacks)
        if options.remember is not None:
            needed_time(given)
        order_of(given, options.order)
        if options.expected is not None:
            found = find_column(given.columns, options.expected, "expected")
            whole_number(found, "expected")
        check_names([column.name for column in options.events], "events")
        check_names([options.version], "version")
        self.states(given)
        key = self.key(given)
        version = Column(options.version, "bigint", nullable=False)
        facts = [*self._carried(given), version]
        columns = [*facts, *options.events]
        names = [column.name.lower() for column in columns]
        if options.command is not None:
            kind = find_column(given.columns, options.command, "command").type or ""
            if kind.startswith(("array", "map", "struct", "variant")):
                message = f"{options.command} is {kind.upper()}, and no id"
                raise OptionError(message, option="command")
            told = {ACCEPTED, REASON, EVENTS_OF, REPEATED}  # beside these in `answers`
            names += [column.name.lower() for column in facts if column.name.lower() in told]
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"the name {name!r} is taken", option="events")
        return Events(columns, [*key, options.version], event_time=given.event_time)

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        given = inputs.only
        found = {**super().outputs(inputs), "rejected": REJECTED, STATE: self.states(given)}
        if self.options.command is not None:
            told = "accepted BOOLEAN, reason STRING, events INT, repeated BOOLEAN"
            answer = Events(told).columns
            version = Column(self.options.version, "bigint")
            found[ANSWERS] = Events([*self._carried(given), version, *answer])
        return found

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        given = inputs.only
        needed = [column.name for column in self._carried(given)]
        if self._id(given) is None:
            needed = self.key(given)
        return {"input": lacking(needed) | beyond_python(given)}

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        found = super().state(inputs)
        command = self._id(inputs.only)
        shaped_by = {**found.shaped_by, "command": command} if command else found.shaped_by
        return replace(found, shaped_by=shaped_by)

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_keyed_state.columns import polars_types

        from mainstem_operators_eventsourcing.decide_logic import DecideLogic
        from mainstem_operators_eventsourcing.values import Values

        given, options = inputs.only, self.options
        app = self.app(options.call, ["decide", "evolve"])
        commands = [column for column in given.columns if column.name in rows["input"]]
        schema = rows["input"]
        remember = options.remember
        expected = options.expected
        return DecideLogic(
            schema,
            app=app,
            by=self.key(given),
            carried=[column.name for column in self._carried(given)],
            commands=Values(
                commands, type(schema)({c.name: schema[c.name] for c in commands}), "a command"
            ),
            states=Values(options.state, polars_types(_ddl(options.state)), f"{app.name}: a state"),
            events=Values(
                options.events, polars_types(_ddl(options.events)), f"{app.name}: an event"
            ),
            version=options.version,
            expected=expected and find_column(given.columns, expected, "expected").name,
            command=self._id(given),
            remember=None if remember is None else remember // remember.resolution,
            time=event_time(given),
            order=order_of(given, options.order),
        )

    def types(
        self, rows: Mapping[str, DataFrame], inputs: Inputs[Shape]
    ) -> Mapping[str, Mapping[str, str | DataType]]:
        kept = {c.name: c.type for c in self.options.state if c.type}
        return {"": {c.name: c.type for c in self.options.events if c.type}, STATE: kept}

    def _carried(self, given: Shape) -> list[Column]:
        """Return the columns of a command that its events have too: key, id, event time."""
        key = self.key(given)
        columns = [replace(given.column(name) or Column(name), nullable=False) for name in key]
        for name in (self._id(given), event_time(given)):
            if name is not None and name not in [column.name for column in columns]:
                columns.append(given.column(name) or Column(name))
        return columns

    def _id(self, given: Shape) -> str | None:
        """Return the column with a command's id."""
        command = self.options.command
        return None if command is None else find_column(given.columns, command, "command").name


def _ddl(columns: Schema) -> str:
    return ", ".join(column.ddl for column in columns)
