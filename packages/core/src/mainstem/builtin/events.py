"""Operator `events`: the changes of a changelog become events like others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mainstem import (
    Accepts,
    Changelog,
    Events,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    option,
)
from mainstem.columns import Column, literal, quoted
from mainstem.contracts.columns import check_names
from mainstem.contracts.shapes import (
    CHANGE_TYPE,
    CHANGELOG_COLUMNS,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Kind = Literal["insert", "update_preimage", "update_postimage", "delete"]


class EventsOptions(Options):
    """Options of `events`."""

    change: str = option(
        "change",
        min_length=1,
        description="The name of the column that says what a change is: `insert`, `update_preimage` (a "
        "row as it was before), `update_postimage`, `delete`.",
    )
    kinds: list[_Kind] = option(
        lambda: ["insert", "update_postimage", "delete"],
        min_length=1,
        description="Which changes become events.",
    )
    sequence: str | None = option(
        None,
        min_length=1,
        description="The name of a column for the sequence; left out without one.",
    )
    committed: str | None = option(
        None,
        min_length=1,
        description="The name of a column for when the change was made; left out without one.",
    )


class ToEvents(Operator):
    """Gives each change of a table as an event, with what it is, for steps that know no changes."""

    options: EventsOptions
    capabilities = OperatorCapabilities(row_wise=True)
    ports = {"input": Accepts((Changelog,))}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        columns = list(given.columns)
        for option_name, name, column in self._added(given):
            check_names([name], option_name)
            if any(name.lower() == each.name.lower() for each in columns):
                raise OptionError(f"the name {name!r} is taken", option=option_name)
            columns.append(Column(name, column.type))
        return Events(columns, event_time=given.event_time)

    def _added(self, given: Shape) -> list[tuple[str, str, Column]]:
        """Return options, the names that they give, and the reserved columns that these are of."""
        assert isinstance(given, Changelog)  # noqa: S101
        kind, sequence, committed = given.change_columns
        named = {"change": kind, "sequence": sequence, "committed": committed}
        return [
            (option_name, name, column)
            for option_name, column in named.items()
            if (name := getattr(self.options, option_name)) is not None
        ]

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        frame, options = inputs.only, self.options
        names = {
            CHANGE_TYPE: options.change,
            COMMIT_VERSION: options.sequence,
            COMMIT_TIMESTAMP: options.committed,
        }
        added = [f"{old} AS {quoted(new)}" for old, new in names.items() if new is not None]
        kinds = ", ".join(map(literal, options.kinds))
        kept = [quoted(name) for name in frame.columns if name not in CHANGELOG_COLUMNS]
        return frame.where(f"{CHANGE_TYPE} IN ({kinds})").selectExpr(*kept, *added)
