"""Operators for the tests: a plugin that is there for those that ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from mainstem import (
    EVENTS,
    Branching,
    Events,
    Inputs,
    Operator,
    OperatorContext,
    Options,
    Shape,
    StateFacts,
    Stateful,
    hookimpl,
    option,
)
from mainstem.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RememberOptions(Options):
    """Options of `remember`."""

    key: list[str] = option(description="Key columns.")
    due: str = option(description="A row is given to `gone` when the watermark passes this.")
    queued: bool = option(False, description="Whether rows wait apart from their keys.")
    page_bytes: int = option(64_000, description="For small pages.")


class Remember(Operator, Branching, Stateful):
    """Gives every row, and again at `gone` once its time has passed."""

    options: RememberOptions
    ports = {"input": EVENTS}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        return Events(inputs.only.columns)

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"gone": Events(inputs.only.columns)}

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        shaped_by = {"key": self.options.key, "due": self.options.due}
        return StateFacts(1, shaped_by=shaped_by, holds=timedelta(minutes=10))

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from keyed_logics import Remember as Logic
        from mainstem_keyed_state import Port, keyed, polars_schema

        frame, options = inputs.only, self.options
        logic = Logic(polars_schema(frame), options.due, options.queued)
        port = Port(frame, options.key)
        return keyed(logic, {"rows": port}, ctx, page_bytes=options.page_bytes)


class CountOptions(Options):
    """Options of `count_keys`."""

    version: int = option(1, description="1 or 2.")


class CountKeys(Operator, Stateful):
    """Counts the rows of each key `k`."""

    options: CountOptions
    ports = {"input": EVENTS}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        return Events([Column("k", "bigint"), Column("n", "bigint")])

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        return StateFacts(1, grows="every key is kept.")

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from keyed_logics import Count, CountText
        from mainstem_keyed_state import Port, keyed

        logic = Count() if self.options.version == 1 else CountText()
        rows = inputs.only.selectExpr("CAST(k AS BIGINT) AS k")
        frame = keyed(
            logic, {"rows": Port(rows, ["k"])}, ctx, page_bytes=4_000, portion_bytes=20_000
        )
        return frame.selectExpr("k", "CAST(n AS BIGINT) AS n")


class PairOptions(Options):
    """Options of `pair`."""

    left: list[str] = option(description="Key of the rows at `left`.")
    right: list[str] = option(description="Key of the rows at `right`.")
    nulls_equal: bool = option(False, description="Whether null equals null.")


class Pair(Operator, Stateful):
    """Counts, for each row at `left`, the rows at `right` with its key so far."""

    options: PairOptions
    ports = {"left": EVENTS, "right": EVENTS}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        return Events([*inputs["left"].columns, Column("n", "bigint")])

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        return StateFacts(1, grows="every key is kept.")

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from keyed_logics import Pairs
        from mainstem_keyed_state import Port, keyed, polars_schema

        left, right = inputs["left"], inputs["right"]
        logic = Pairs(polars_schema(left), polars_schema(right))
        ports = {"left": Port(left, self.options.left), "right": Port(right, self.options.right)}
        return keyed(logic, ports, ctx, nulls_equal=self.options.nulls_equal)


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {"remember": Remember, "count_keys": CountKeys, "pair": Pair}
