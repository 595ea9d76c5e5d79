"""Spark's side of totals in state by key: what is read of a row, and SQL for what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem_keyed_state import polars_schema

from mainstem_operators_windows.totals.accumulator import Accumulator, input_name
from mainstem_operators_windows.totals.calls import Call
from mainstem_operators_windows.totals.functions import inputs_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def read_columns(calls: Sequence[Call], rows: DataFrame) -> list[str]:
    """Return the SQL of the columns that calls read of rows.

    Raises:
        OptionError: state by key can't do one of them for these types.
    """
    columns = []
    for number, call in enumerate(calls):
        types = [f.dataType.simpleString() for f in rows.selectExpr(*call.values).schema]
        columns += [
            f"{sql} AS {input_name(number, place)}"
            for place, sql in enumerate(inputs_of(call, types))
        ]
    return columns


def told_types(accumulators: Sequence[Accumulator], read: DataFrame) -> dict[str, str | DataType]:
    """Return Spark's types of what is told and is a value that was read, or a list of such.

    Args:
        read: rows with what is read of them.
    """
    from pyspark.sql.types import ArrayType

    kinds, schema = polars_schema(read), read.schema
    found: dict[str, str | DataType] = {}
    for each in accumulators:
        if (name := input_name(each.number, 0)) not in kinds:
            continue
        for told, kind in each.told.items():
            if kind == kinds[name]:
                found[told] = schema[name].dataType
            elif getattr(kind, "inner", None) == kinds[name]:
                found[told] = ArrayType(schema[name].dataType)
    return found


def results(
    calls: Sequence[Call], accumulators: Sequence[Accumulator], rows: DataFrame
) -> Mapping[Call, str]:
    """Return the SQL of what each call gives, of Spark's types, over what is told.

    Args:
        rows: those that are totalled.
    """
    from pyspark.sql import functions as F  # noqa: N812

    kinds = rows.agg(*(F.expr(call.text) for call in calls)).schema
    return {
        call: each.result(field.dataType.simpleString())
        for call, each, field in zip(calls, accumulators, kinds, strict=True)
    }
