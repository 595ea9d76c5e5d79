"""Operator `evolve`: events become the table of the states that they have made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mainstem import Inputs, OptionError, Shape, StateFacts, option
from mainstem.columns import find_column
from mainstem.functions import FunctionName
from mainstem_keyed_state import event_time, lacking

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


class EvolveOptions(RootOptions):
    """Options of `evolve`."""

    call: FunctionName = option(
        description="A class, as `module:Class`, with a function `evolve(state, event)`, which returns "
        "the state after an event, a dictionary, or None for none. The state is None before the first "
        "event, unless the class has `initial`. It depends on nothing else.",
        example="shop:Cart",
    )
    version: str | None = option(
        None,
        description="The column with an event's number among those of its key: events follow each other "
        "by it, and one that is not above the last is passed over. When left out, events are counted.",
        example="version",
    )
    order: list[str] = option(
        list,
        description="Without `version`: the columns by which events of a key follow each other within a "
        "batch; when left out, their place in the log (`partition`, `position`), or their event time.",
    )


class Evolve(Root):
    """Calls `evolve` with each event and the state of its key, and tells the state after it.

    A table by key, whose sequence is the version: of a store that is filled from it each state is the one
    that all events up to there have made.
    """

    options: EvolveOptions

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options = inputs.only, self.options
        if options.version is not None and options.order:
            raise OptionError("events follow each other by their version", option="order")
        version = self._version(given)
        if version is None:
            order_of(given, options.order)
        else:
            whole_number(find_column(given.columns, version, "version"), "version")
        return self.states(given)

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        version = self._version(inputs.only)
        needed = [*self.key(inputs.only), *([version] if version else [])]
        return {"input": lacking(needed) | beyond_python(inputs.only)}

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        found = super().state(inputs)
        return replace(found, shaped_by={**found.shaped_by, "version": self.options.version})

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_keyed_state.columns import polars_types

        from mainstem_operators_eventsourcing.evolve_logic import EvolveLogic
        from mainstem_operators_eventsourcing.values import Values

        given, options, schema = inputs.only, self.options, rows["input"]
        app = self.app(options.call, ["evolve"])
        events = [column for column in given.columns if column.name in schema]
        ddl = ", ".join(column.ddl for column in options.state)
        version = self._version(given)
        return EvolveLogic(
            schema,
            app=app,
            by=self.key(given),
            events=Values(
                events, type(schema)({c.name: schema[c.name] for c in events}), "an event"
            ),
            states=Values(options.state, polars_types(ddl), f"{app.name}: a state"),
            version=version,
            time=event_time(given),
            order=[version] if version is not None else order_of(given, options.order),
        )

    def types(
        self, rows: Mapping[str, DataFrame], inputs: Inputs[Shape]
    ) -> Mapping[str, Mapping[str, str | DataType]]:
        return {"": {c.name: c.type for c in self.options.state if c.type}}

    def _version(self, given: Shape) -> str | None:
        """Return the column with an event's version."""
        version = self.options.version
        return None if version is None else find_column(given.columns, version, "version").name
