"""Operator `select`: computes columns and drops rows, by SQL expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mainstem import (
    Changelog,
    Column,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    option,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SelectOptions(Options):
    """Options of `select`."""

    columns: dict[str, str] | None = option(
        None,
        min_length=1,
        description="The output's columns: SQL expressions by name; all columns when left out.",
        example={"city": "city", "euros": "cents / 100"},
    )
    where: str | None = option(
        None, description="An SQL condition over the input: rows where it holds go on."
    )


class Select(Operator):
    """Computes columns and keeps the rows that meet a condition, by SQL expressions."""

    options: SelectOptions

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """Rows stay rows; all of them do unless there is a condition."""
        return OperatorCapabilities(row_wise=True, keeps_rows=self.options.where is None)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        wanted = self.options.columns
        if wanted is None:
            if self.options.where is None:
                raise OptionError("expected `columns`, `where` or both")
            return given.with_columns(given.columns)
        for name in wanted:
            if name.startswith("_"):
                raise OptionError(
                    f"{name!r}: names that begin with _ are reserved", option="columns"
                )
        plain = {name: given.column(text.strip().strip("`")) for name, text in wanted.items()}
        if isinstance(given, Changelog):
            for key in given.key:
                if plain.get(key) != given.column(key):
                    raise OptionError(
                        f"the changelog's key column {key!r} must stay as it is",
                        option="columns",
                        hint=f"Write `{key}: {key}`.",
                    )
        columns = [
            Column(name, source.type, source.nullable) if source else Column(name)
            for name, source in plain.items()
        ]
        event_time = None
        if given.event_time:
            for name, source in plain.items():
                if source and source.name == given.event_time.column:
                    event_time = replace(given.event_time, column=name)
        return replace(given.with_columns(columns), event_time=event_time)

    def expressions(self) -> Mapping[str, str]:
        where = {"where": self.options.where} if self.options.where else {}
        columns = self.options.columns or {}
        return {**where, **{f"columns.{name}": text for name, text in columns.items()}}

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        frame = inputs.only
        if self.options.where is not None:
            frame = frame.where(self.options.where)
        if self.options.columns is None:
            return frame
        from pyspark.sql import functions as F  # noqa: N812

        reserved = [name for name in frame.columns if name.startswith("_")]
        columns = [F.expr(text).alias(name) for name, text in self.options.columns.items()]
        return frame.select(*reserved, *columns)
