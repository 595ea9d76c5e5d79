"""Totals on Spark's own state: wherever Spark can give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem.columns import quoted

from mainstem_operators_windows.window import Window, windowed

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame


def spark_totals(
    rows: DataFrame,
    *,
    by: Sequence[str],
    window: Window | None,
    on: str,
    columns: Mapping[str, str],
    changes: bool,
) -> DataFrame:
    """Return totals of rows by keys and windows.

    Args:
        by: the columns of the key.
        on: the column with the time, if there are windows; one that has the watermark.
        columns: SQL of the totals, by name.
        changes: whether they are told as changes.
    """
    from pyspark.sql import functions as F  # noqa: N812

    groups: list[SparkColumn] = [F.col(quoted(name)) for name in by]
    names = [quoted(name) for name in by]
    if window is not None:
        within = windowed(rows, window, on)
        rows = within.rows
        groups += within.groups
        names += [
            f"{within.start} AS {quoted(window.start)}",
            f"{within.end} AS {quoted(window.end)}",
        ]
    totals = [F.expr(text).alias(name) for name, text in columns.items()]
    names += [quoted(name) for name in columns]
    if changes:
        names.append("'update_postimage' AS _change_type")
    return rows.groupBy(*groups).agg(*totals).selectExpr(*names)
