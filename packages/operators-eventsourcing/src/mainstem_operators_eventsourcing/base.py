"""What `decide` and `evolve` share: the class of the user, the state of each key, the order of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mainstem import (
    COMMIT_VERSION,
    EVENTS,
    Changelog,
    Inputs,
    OperatorCapabilities,
    OptionError,
    Schema,
    Shape,
    StateFacts,
    option,
)
from mainstem.columns import Column, check_names, find_column, quoted
from mainstem.functions import FunctionOptions
from mainstem_keyed_state import KeyedOperator, event_time

if TYPE_CHECKING:
    from mainstem_operators_eventsourcing.app import App

#: The columns by which messages have a log's order; where there is one log the first may be missing.
_LOG = ("origin", "partition", "position")
#: Types whose values have an order among the rows of a batch.
_ORDERED = (
    "string",
    "binary",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "date",
    "timestamp",
)


class RootOptions(FunctionOptions):
    """Options of both."""

    by: list[str] = option(
        min_length=1, description="The columns that tell one whole from another.", example=["cart"]
    )
    state: Schema = option(
        description="The columns of the state, beside those of the key.",
        example="items MAP<STRING, INT>, paid BOOLEAN",
    )


class Root(KeyedOperator):
    """An operator that has a state of each key, which a function of the user's makes of events."""

    options: RootOptions
    ports = {"input": EVENTS}
    capabilities = OperatorCapabilities(batch_invariant=False, keeps_names=False)
    nulls_equal = True

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        return {"input": [quoted(name) for name in self.key(inputs.only)]}

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        kept = [column.ddl for column in self.options.state]
        found = StateFacts(
            1,
            keyed=True,
            shaped_by={"by": self.key(inputs.only), "state": kept},
            grows="of each key its state is kept, and how many events it has had.",
        )
        return replace(found, holds=self.holds(inputs))

    def key(self, given: Shape) -> list[str]:
        """Return the columns of the key, as the stream writes them."""
        return [find_column(given.columns, name, "by").name for name in self.options.by]

    def states(self, given: Shape) -> Changelog:
        """Return the shape of the states: a table by key, each version above the one before."""
        check_names([column.name for column in self.options.state], "state")
        key = self.key(given)
        columns = [replace(given.column(name) or Column(name), nullable=False) for name in key]
        taken = {name.lower() for name in key}
        for column in self.options.state:
            if column.name.lower() in taken:
                hint = "The key's columns are kept without being named."
                raise OptionError(f"{column.name!r} is the key's", option="state", hint=hint)
        return Changelog(
            [*columns, *self.options.state],
            key=key,
            sequence=COMMIT_VERSION,
            identity=[*key, COMMIT_VERSION],
            sequence_type="bigint",
        )

    def app(self, call: str, methods: Sequence[str]) -> App:
        """Return the user's class.

        Raises:
            OptionError: it is not there, lacks a method, or can't be sent to Spark's tasks.
        """
        from mainstem_operators_eventsourcing.app import load_app

        return load_app(call, methods, self.options)


def whole_number(column: Column, option: str) -> None:
    """See that a column has whole numbers, as far as its type is known.

    Raises:
        OptionError: it has not.
    """
    if column.type not in (None, "tinyint", "smallint", "int", "bigint"):
        message = f"{column.name} is {(column.type or '').upper()}, and no whole number"
        raise OptionError(message, option=option)


def beyond_python(given: Shape) -> dict[str, str]:
    """Return why rows are refused whose times Python has not, in which functions are given them."""
    return {
        f"year({quoted(column.name)}) NOT BETWEEN 1 AND 9999": f"{column.name} is in a year that Python "
        "has not"
        for column in given.columns
        if (column.type or "").startswith(("date", "timestamp"))
    }


def order_of(given: Shape, named: Sequence[str]) -> list[str]:
    """Return the columns by which a key's rows follow each other.

    Raises:
        OptionError: nothing says it.
    """
    if named:
        first = [find_column(given.columns, name, "order").name for name in named]
    else:
        log = [column.name for name in _LOG if (column := given.column(name)) is not None]
        if len(log) >= 2 and "position" in (name.lower() for name in log):
            return log
        time = event_time(given)
        first = [] if time is None else [time]
    if first:
        # What is alike in these follows the rest, so that a batch that is worked on again is the same.
        rest = [c.name for c in given.columns if (c.type or "").startswith(_ORDERED)]
        return [*first, *(name for name in rest if name not in first)]
    raise OptionError(
        "in which order do the rows of a key come?",
        option="order",
        hint="Keep `partition` and `position` of messages, or name columns in `order`.",
    )
