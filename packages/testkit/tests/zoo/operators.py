"""Operators with one fault each, beside the healthy ones that they were made of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from mainstem import (
    REJECTED,
    Branching,
    Changelog,
    Events,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    Options,
    Shape,
    StateFacts,
    Stateful,
)
from mainstem.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class NoOptions(Options):
    """None."""


class Healthy(Operator):
    """Trims `k` and tells its length."""

    options: NoOptions
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True)
    length = "length(k)"

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        return inputs.only.with_columns([*inputs.only.columns, Column("length", "int")])

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        return inputs.only.selectExpr("*", f"{self.length} AS length")


class LiesAboutAType(Healthy):
    """Announces an INT and gives a BIGINT."""

    length = "CAST(length(k) AS BIGINT)"


class LiesAboutNull(Healthy):
    """Announces NOT NULL and gives null."""

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        columns = [*inputs.only.columns, Column("length", "int", nullable=False)]
        return inputs.only.with_columns(columns)


class ForgetsItsShape(Healthy):
    """Announces another shape each time it is asked."""

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        shape = super().shape(inputs)
        self._asked = getattr(self, "_asked", 0) + 1
        return shape.with_columns(shape.columns[: self._asked])


class PlansWithSpark(Healthy):
    """Needs pyspark to say what it gives."""

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        from pyspark.sql.types import IntegerType

        column = Column("length", IntegerType().simpleString())
        return inputs.only.with_columns([*inputs.only.columns, column])


class NumbersTheBatch(Healthy):
    """Puts each row's number in its batch in place of the length."""

    length = "CAST(row_number() OVER (ORDER BY k) AS INT)"


class NumbersThePartition(Healthy):
    """Puts each row's number in its partition in place of the length."""

    length = "CAST(monotonically_increasing_id() AS INT)"


class NewIds(Healthy):
    """Says that a column made of chance tells rows apart."""

    capabilities = OperatorCapabilities(keeps_rows=True)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        columns = [*inputs.only.columns, Column("token", "string")]
        return Events(columns, identity=["token"])

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        names = [name for name in inputs.only.columns if not name.startswith("_")]
        return inputs.only.selectExpr(*names, "uuid() AS token")


class SharedIds(NewIds):
    """Says that a column tells rows apart which many rows share."""

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        return Events(inputs.only.columns, identity=["k"])

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        names = [name for name in inputs.only.columns if not name.startswith("_")]
        return inputs.only.select(*names)


class DropsReserved(Healthy):
    """Is row-wise, but gives the announced columns alone."""

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        frame = super().apply(inputs, ctx)
        return frame.select(*(name for name in frame.columns if not name.startswith("_")))


class KeepsIdAlone(DropsReserved):
    """Is row-wise, but passes on only the reserved column it knows of."""

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        frame = Healthy.apply(self, inputs, ctx)
        hidden = [n for n in frame.columns if n.startswith("_") and n != "_id"]
        return frame.drop(*hidden)


class DoublesRows(Healthy):
    """Is row-wise, but makes two rows of one."""

    capabilities = OperatorCapabilities(row_wise=True)

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        return super().apply(inputs, ctx).selectExpr("*", "explode(array(1, 2)) AS n").drop("n")


class LosesRows(Healthy):
    """Keeps all rows, it says, but for those without a key."""

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        return super().apply(inputs, ctx).where("k IS NOT NULL")


class RaisesOnNull(Healthy):
    """Ends the run at a row without a key."""

    length = "IF(k IS NULL, raise_error('no key'), length(k))"


class MakesRows(Healthy):
    """Adds a row to each batch, and so to an empty one."""

    capabilities = OperatorCapabilities()

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        return Events(super().shape(inputs).columns)

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        frame = super().apply(inputs, ctx)
        one = frame.sparkSession.range(1).selectExpr("'end' AS k", "3 AS v", "3 AS length")
        return frame.selectExpr("k", "v", "length").union(one)


class Refuses(Healthy, Branching):
    """Refuses rows without a key."""

    reason = "'no key'"

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED}

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        refused = f"struct({self.reason} AS reason, CAST(v AS STRING) AS payload)"
        if self.reason.startswith("'"):
            refused = f"struct({self.reason} AS reason, encode('', 'UTF-8') AS payload)"
        return super().apply(inputs, ctx).selectExpr(
            "*", "IF(k IS NULL, 'rejected', NULL) AS _output", f"IF(k IS NULL, {refused}, NULL) AS _rejected"
        )  # fmt: skip


class LiesAboutAnOutput(Refuses):
    """Gives text at its output `rejected`, where bytes are announced."""

    reason = "concat('no ', 'key')"


class Counts(Operator, Stateful):
    """Counts rows by key and event time."""

    options: NoOptions
    grows = ""
    holds = timedelta(0)
    output_mode = "append"

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        return Events("k STRING, at TIMESTAMP, n BIGINT NOT NULL", identity=["k", "at"])

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        return StateFacts(1, grows=self.grows, holds=self.holds, output_mode=self.output_mode)

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        return inputs.only.groupBy("k", "at").count().withColumnRenamed("count", "n")


class KeepsState(Counts):
    """Counts rows by key for ever, and says that its state shrinks."""

    capabilities = OperatorCapabilities(batch_invariant=False)
    output_mode = "update"

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        return Changelog("k STRING, n BIGINT", key=["k"])

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        counts = inputs.only.groupBy("k").count()
        return counts.selectExpr("k", "count AS n", "'update_postimage' AS _change_type")


class OwnsUpToItsState(KeepsState):
    """Counts rows by key for ever, and says so."""

    grows = "every key is kept for ever"


class CountsBatches(OwnsUpToItsState):
    """Sums up the rows of each batch anew, so that its table is that of the last batch."""

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        counts = inputs.only.groupBy("k").agg({"v": "max"}).withColumnRenamed("max(v)", "n")
        return counts.selectExpr(
            "k", "CAST(rand() * 1e12 AS BIGINT) AS n", "'update_postimage' AS _change_type"
        )


class DropsLateRows(Counts):
    """Filters rows by time itself, before Spark could count those that are late."""

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        recent = inputs.only.where("at >= TIMESTAMP '2024-05-01T00:00:00Z'")
        return super().apply(Inputs(input=recent), ctx)


class HoldsLonger(Counts):
    """Counts by hours, but says that time itself is all it waits for."""

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        counts = inputs.only.groupBy("k", F.window("at", "1 day").alias("day")).count()
        return counts.selectExpr("k", "day.start AS at", "count AS n")


OPERATORS: dict[str, type[Operator]] = {
    "zoo_healthy": Healthy,
    "zoo_lies_about_a_type": LiesAboutAType,
    "zoo_lies_about_null": LiesAboutNull,
    "zoo_forgets_its_shape": ForgetsItsShape,
    "zoo_plans_with_spark": PlansWithSpark,
    "zoo_numbers_the_batch": NumbersTheBatch,
    "zoo_numbers_the_partition": NumbersThePartition,
    "zoo_new_ids": NewIds,
    "zoo_shared_ids": SharedIds,
    "zoo_drops_reserved": DropsReserved,
    "zoo_keeps_id_alone": KeepsIdAlone,
    "zoo_doubles_rows": DoublesRows,
    "zoo_loses_rows": LosesRows,
    "zoo_raises_on_null": RaisesOnNull,
    "zoo_makes_rows": MakesRows,
    "zoo_refuses": Refuses,
    "zoo_lies_about_an_output": LiesAboutAnOutput,
    "zoo_counts": Counts,
    "zoo_keeps_state": KeepsState,
    "zoo_owns_up_to_its_state": OwnsUpToItsState,
    "zoo_counts_batches": CountsBatches,
    "zoo_drops_late_rows": DropsLateRows,
    "zoo_holds_longer": HoldsLonger,
}
