"""Expressions that may fail for a row: the row is refused, and the others go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from mainstem import literal, option, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

OnError = Literal["fail", "reject"]


def on_error_option() -> Any:
    """Declare the option `on_error`."""
    return option(
        "fail",
        description="What happens with a row for which an expression fails, such as a CAST: `fail` ends "
        "the run, `reject` sends it to `rejected` with the expression and the row as JSON.",
    )


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


def attempts(frame: DataFrame, expressions: Mapping[str, str]) -> dict[str, SparkColumn]:
    """Return the attempts of expressions by the name of the column that is to have each.

    Args:
        expressions: SQL by the key of the option that holds it.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return {
        attempt_name(number): attempt(frame, F.expr(text)).alias(attempt_name(number))
        for number, text in enumerate(expressions.values())
    }


def attempt_name(number: int) -> str:
    """Return the column of the attempt of one of some expressions."""
    return f"__attempt{number}"


def failure(expressions: Mapping[str, str], numbers: Iterable[int]) -> str:
    """Return SQL for which of some expressions failed, null if none did."""
    listed = list(expressions.items())
    cases = " ".join(
        f"WHEN {attempt_name(n)} IS NULL THEN {literal(f'{listed[n][0]} fails: {listed[n][1]}')}"
        for n in numbers
    )
    return f"CASE {cases} END" if cases else "CAST(NULL AS STRING)"


def as_json(columns: Iterable[str]) -> str:
    """Return SQL for the bytes of a row, of its columns but for the reserved ones."""
    plain = ", ".join(quoted(name) for name in columns if not name.startswith("_"))
    return f"CAST(to_json(struct({plain})) AS BINARY)"
