"""Operator `sample`: a share of the rows, always the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem import (
    EVENTS,
    Branching,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    option,
)
from mainstem.columns import find_column, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: So finely a share is told apart.
_PARTS = 1_000_000
_UNHASHED = ("map", "variant")


class SampleOptions(Options):
    """Options of `sample`."""

    share: float = option(
        gt=0, le=1, description="Which share of the rows, or of the keys, stays.", example=0.01
    )
    by: list[str] = option(
        list,
        description="The key columns: all rows of a key stay, or none. When left out, rows are chosen by "
        "all their columns.",
        example=["customer"],
    )


class Sample(Operator, Branching):
    """Lets a share of the rows pass; the others come out of `rest`.

    Which ones hangs on their values alone: after a restart, in a replay and in another pipeline they
    are the same, and a greater share has those of a smaller one.
    """

    options: SampleOptions
    ports = {"input": EVENTS}
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        for column in self._columns(given):
            found = given.column(column)
            if found is not None and (found.type or "").startswith(_UNHASHED):
                hint = "Name the columns that tell: `by: [...]`."
                raise OptionError(f"{found.ddl} can't be chosen by", option="by", hint=hint)
        return given.with_columns(given.columns)

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rest": inputs.only.with_columns(inputs.only.columns)}

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        columns = ", ".join(map(quoted, self._columns(ctx.shapes.only)))
        least = round(self.options.share * _PARTS)
        stays = f"pmod(xxhash64({columns}), {_PARTS}) < {least}"
        names = ", ".join(quoted(column.name) for column in ctx.shapes.only.columns)
        return inputs.only.selectExpr(
            "*",
            f"IF({stays}, NULL, 'rest') AS _output",
            f"IF({stays}, NULL, struct({names})) AS _rest",
        )

    def _columns(self, given: Shape) -> list[str]:
        if not self.options.by:
            return [name for name in given.names if not name.startswith("_")]
        return [find_column(given.columns, name, "by").name for name in self.options.by]
