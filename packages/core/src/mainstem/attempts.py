"""Expressions that may fail for a row: the row is refused, and the others go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from mainstem.contracts.columns import json_sql
from mainstem.contracts.ddl import literal
from mainstem.contracts.options import option

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

#: What happens with a row for which an expression fails.
OnError = Literal["fail", "reject"]


def on_error_option() -> Any:
    """Declare the option `on_error`."""
    return option(
        "fail",
        description="What happens with a row for which an expression fails, such as a CAST: `fail` ends "
        "the run, `reject` sends it to `rejected` with the expression and the row as JSON.",
    )


class Attempts:
    """SQL expressions of an operator, tried for each row of a frame.

    Args:
        expressions: by the key of the option that holds each.
    """

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._texts = dict(expressions)
        self._columns = {key: f"__attempt{n}" for n, key in enumerate(expressions)}

    def __contains__(self, key: str) -> bool:
        return key in self._texts

    def onto(self, frame: DataFrame) -> DataFrame:
        """Return a frame with a column more for each expression, which the others are written with."""
        from pyspark.sql import functions as F  # noqa: N812

        tried = [
            attempt(frame, F.expr(text)).alias(self._columns[key])
            for key, text in self._texts.items()
        ]
        return frame.select("*", *tried)

    def value(self, key: str) -> str:
        """Return SQL for an expression's value; null where it fails."""
        return f"{self._columns[key]}.v"

    def failure(self, keys: Iterable[str] | None = None) -> str:
        """Return SQL for which of some expressions failed first, of all when left out; null if none."""
        wanted = self._texts if keys is None else list(keys)
        cases = " ".join(
            f"WHEN {self._columns[key]} IS NULL THEN {literal(f'{key} fails: {self._texts[key]}')}"
            for key in wanted
        )
        return f"CASE {cases} END" if cases else "CAST(NULL AS STRING)"


def attempt(frame: DataFrame, value: SparkColumn) -> SparkColumn:
    """Return a struct with the value `v` of an expression; null where the expression fails."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.classic.column import Column as ClassicColumn

    jvm: Any = frame.sparkSession._jvm
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    inner: Any = F.struct(value.alias("v"))
    made = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(utils.expression(inner._jc))
    # In a lambda, for what several expressions have in common Spark computes before them, and not there.
    tried: SparkColumn = ClassicColumn(utils.column(made))
    return F.transform(F.array(F.lit(0)), lambda _: tried)[0]


def row_as_json(columns: Iterable[str]) -> str:
    """Return SQL for the bytes of a row, of its columns but for the reserved ones."""
    return f"CAST({json_sql(columns)} AS BINARY)"


def refusal(reason: str, payload: str, *, wanted: bool = True) -> list[str]:
    """Return the columns by which a row goes to `rejected`, as SQL.

    Args:
        reason: SQL for why; null for a row that is not refused.
        payload: SQL for the row's bytes.
        wanted: whether anybody reads what is refused; else no bytes are made.
    """
    row = f"struct({reason} AS reason, {payload} AS payload)"
    columns = [f"IF({reason} IS NOT NULL, 'rejected', NULL) AS _output"]
    return [*columns, f"IF({reason} IS NOT NULL, {row}, NULL) AS _rejected"] if wanted else columns
