"""Operator `newword`: one spelling for the text in a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from mainstem import (
    EVENTS,
    Accepts,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    option,
)
from mainstem.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class NewWordOptions(Options):
    """Options of `newword`."""

    column: str = option(description="The STRING column to rewrite.", example="city")
    case: Literal["lower", "upper"] = option("lower", description="How its text is written.")


class NewWordOperator(Operator):
    """Trims the text in a column and writes it in one case, so that equal names are equal."""

    options: NewWordOptions
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True)
    ports: Mapping[str, Accepts] = {"input": EVENTS}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        """Return the input's shape: the same columns, of the same types."""
        column = inputs.only.column(self.options.column)
        if column is None:
            names = ", ".join(inputs.only.names)
            raise OptionError(f"there is no such column; there are: {names}", option="column")
        if column.type not in (None, "string"):
            raise OptionError(f"expected a STRING column, not {column.ddl}", option="column")
        return inputs.only.with_columns(inputs.only.columns)

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        """Return the rows with the column rewritten; reserved columns pass untouched."""
        from pyspark.sql.functions import col, lower, trim, upper

        spell = lower if self.options.case == "lower" else upper
        text = trim(col(quoted(self.options.column)))
        return inputs.only.withColumn(self.options.column, spell(text))
