"""Operator `changelog`: events that set or delete a key become a changelog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem import (
    EVENTS,
    REJECTED,
    Changelog,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    Options,
    Shape,
    option,
)
from mainstem.attempts import Attempts, OnError, on_error_option, refusal, row_as_json
from mainstem.columns import literal, quoted
from mainstem.contracts.abilities import Branching, Checked, Expressions, Statement
from mainstem.contracts.columns import find_column
from mainstem.contracts.shapes import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ChangelogOptions(Options):
    """Options of `changelog`."""

    key: list[str] = option(min_length=1, description="The columns of the table's key.")
    sequence: str = option(
        description="The column that only grows for a key: of two rows the one with the greater "
        "value is the newer. A version number, a time, or a message's position."
    )
    delete: str | None = option(
        None,
        description="An SQL condition: a row that meets it deletes its key.",
        example="status = 'gone'",
    )
    on_error: OnError = on_error_option()


class ToChangelog(Operator, Branching, Expressions, Checked):
    """Reads each event as the new state of its key, or as its deletion; keeps no state itself."""

    options: ChangelogOptions
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True)
    ports = {"input": EVENTS}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        for option_name, names in (
            ("key", self.options.key),
            ("sequence", [self.options.sequence]),
        ):
            for name in names:
                find_column(given.columns, name, option_name)
        return Changelog(
            given.columns, self.options.key, self.options.sequence, event_time=given.event_time
        )

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED}

    def expressions(self) -> Mapping[str, str]:
        return {"delete": self.options.delete} if self.options.delete else {}

    def statements(self, inputs: Inputs[Shape]) -> list[Statement]:
        delete = self.options.delete
        return [Statement.condition("delete", delete)] if delete else []

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        frame = inputs.only
        sequence = quoted(self.options.sequence)
        needed = {name: quoted(name) for name in [*self.options.key, self.options.sequence]}
        missing = " ".join(
            f"WHEN {column} IS NULL THEN {literal(f'{name} is null')}"
            for name, column in needed.items()
        )
        rejecting = self.options.on_error == "reject" and self.options.delete is not None
        delete = self.options.delete or "false"
        named = list(frame.columns)
        timestamp = frame.select(sequence).dtypes[0][1] == "timestamp"
        fails = "CAST(NULL AS STRING)"
        if rejecting:
            tried = Attempts({"delete": delete})
            frame = tried.onto(frame)
            fails, delete = tried.failure(), tried.value("delete")
        return frame.selectExpr(
            *map(quoted, named),
            f"IF({delete}, 'delete', 'update_postimage') AS {CHANGE_TYPE}",
            f"{sequence} AS {COMMIT_VERSION}",
            f"{sequence if timestamp else 'CAST(NULL AS TIMESTAMP)'} AS {COMMIT_TIMESTAMP}",
            f"coalesce({fails}, CASE {missing} END) AS __reason",
        ).selectExpr(
            *map(quoted, named),
            CHANGE_TYPE,
            COMMIT_VERSION,
            COMMIT_TIMESTAMP,
            *refusal("__reason", row_as_json(named)),
        )
