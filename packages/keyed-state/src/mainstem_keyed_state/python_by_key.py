"""Operator `python_by_key`: a function of the user's own that has a state of each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mainstem import (
    EVENTS,
    Duration,
    Events,
    Inputs,
    OperatorCapabilities,
    OptionError,
    Schema,
    Shape,
    StateFacts,
    option,
)
from mainstem.columns import Column, check_names, find_column, quoted
from mainstem.functions import FunctionName, FunctionOptions

from mainstem_keyed_state.operator import KeyedOperator, event_time

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from mainstem_keyed_state.logic import Logic


class PythonByKeyOptions(FunctionOptions):
    """Options of `python_by_key`."""

    call: FunctionName = option(
        description="The function, as `module:function`. It takes two frames of Polars, the rows of some "
        "keys and what is kept of those keys, and `watermark` (a datetime, or None), and returns two: "
        "the rows that come out, and what is kept of the keys from then on.",
        example="visits:streaks",
    )
    by: list[str] = option(min_length=1, description="The key columns.", example=["user"])
    state: Schema = option(
        description="The columns that are kept, beside those of the key; a key may have several rows.",
        example="days INT, last DATE",
    )
    table_schema: Schema = option(
        alias="schema",
        description="The columns that come out, with their types.",
        example="user STRING, days INT",
    )
    wake: str | None = option(
        None,
        description="A TIMESTAMP column of the state: when the watermark comes to it, the function is "
        "called for the key though it has no rows.",
    )
    waits: Duration = option(
        timedelta(0),
        description="How long after its event time, at most, a row is waited with: so far `flush` moves "
        "the watermark on.",
    )
    identity: list[str] = option(
        list,
        description="The columns that tell an output row from every other, the same after a replay; "
        "for sinks that need it.",
    )


class PythonByKey(KeyedOperator):
    """Calls a Python function with rows of a batch and what is kept of their keys.

    A call has all of the batch's rows of its keys; how many keys are in a call is not said. The function
    is sent to Spark's tasks, with what it uses of the document's folder; its rows come in the order of
    their event time, where they have one. What it raises ends the run.
    """

    options: PythonByKeyOptions
    ports = {"input": EVENTS}
    capabilities = OperatorCapabilities(batch_invariant=False, keeps_names=False)
    nulls_equal = True

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options = inputs.only, self.options
        check_names(self._by(given), "by")
        check_names([column.name for column in options.state], "state")
        check_names([column.name for column in options.table_schema], "schema")
        if "watermark" in options.options:
            raise OptionError("the call has a `watermark` already", option="options")
        keys = {name.lower() for name in self._by(given)}
        for column in options.state:
            if column.name.lower() in keys:
                hint = "The key's columns are kept without being named."
                raise OptionError(f"{column.name!r} is the key's", option="state", hint=hint)
        if options.wake is not None:
            found = find_column(options.state, options.wake, "wake")
            if found.type != "timestamp":
                raise OptionError(f"{found.ddl} is no TIMESTAMP", option="wake")
        columns = options.table_schema
        identity = [find_column(columns, name, "identity").name for name in options.identity]
        return Events(columns, identity)

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        return {"input": [quoted(name) for name in self._by(inputs.only)]}

    def holds(self, inputs: Inputs[Shape]) -> timedelta:
        return self.options.waits

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        options, by = self.options, self._by(inputs.only)
        kept = [column.ddl for column in options.state]
        return StateFacts(
            1,
            keyed=True,
            shaped_by={"by": by, "state": kept, "wake": self._wake},
            holds=options.waits,
            waits=options.wake is not None,
            grows=f"what {options.call} keeps of a key is kept until it keeps nothing of it.",
        )

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem.functions import first_on_path, load_function
        from pyspark import cloudpickle

        from mainstem_keyed_state.columns import polars_types
        from mainstem_keyed_state.function_logic import FunctionLogic

        options, given = self.options, inputs.only
        with first_on_path(options.folder):
            function = load_function(options.call, options.folder)
        try:
            pickled: Any = cloudpickle  # which has no types
            pickled.dumps(function)
        except Exception as error:
            message = f"{options.call} can't be sent to Spark's tasks: {error}"
            hint = "Make in the function what can't be pickled, such as a lock or a connection."
            raise OptionError(message, option="call", hint=hint) from error
        return FunctionLogic(
            rows["input"],
            by=self._by(given),
            kept=polars_types(_ddl(options.state)),
            out=polars_types(_ddl(options.table_schema)),
            wake=self._wake,
            time=event_time(given),
            function=function,
            name=options.call,
            folder=options.folder,
            options=options.options,
        )

    def types(
        self, rows: Mapping[str, DataFrame], inputs: Inputs[Shape]
    ) -> Mapping[str, Mapping[str, str | DataType]]:
        from mainstem_keyed_state.logic import MAIN

        return {MAIN: {c.name: c.type for c in self.options.table_schema if c.type}}

    @property
    def _wake(self) -> str | None:
        """The column `wake`, as the state writes it."""
        wake, columns = self.options.wake, self.options.state
        return find_column(columns, wake, "wake").name if wake is not None else None

    def _by(self, given: Shape) -> list[str]:
        return [find_column(given.columns, name, "by").name for name in self.options.by]


def _ddl(columns: Sequence[Column]) -> str:
    return ", ".join(column.ddl for column in columns)
