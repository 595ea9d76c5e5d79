"""Types of columns between Spark and Polars.

Most of Spark's types are Arrow's and Polars' too. These are not, and travel as others: MAP as a list
of structs, VARIANT as the struct that it is in Arrow, INTERVAL YEAR TO MONTH as its months, INTERVAL as
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl
from mainstem import PluginError
from mainstem.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

_LEAVES: Mapping[str, Any] = {
    "boolean": pl.Boolean(),
    "tinyint": pl.Int8(),
    "smallint": pl.Int16(),
    "int": pl.Int32(),
    "bigint": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "string": pl.String(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
    "void": pl.Null(),
    "variant": pl.Struct({"value": pl.Binary(), "metadata": pl.Binary()}),
}


def polars_schema(frame: DataFrame) -> pl.Schema:
    """Return the columns of a Spark frame as the rows of a port have them.

    Raises:
        PluginError: a type has no way there, such as a geometry; names the column.
    """
    return _columns(frame.schema)


def polars_types(ddl: str) -> pl.Schema:
    """Return declared columns as the rows of a port would have them; there is a Spark session.

    Raises:
        PluginError: a type has no way there; names the column.
    """
    from pyspark.sql.types import StructType

    declared: Any = StructType.fromDDL(ddl)
    return _columns(declared)


def _columns(fields: Iterable[StructField]) -> pl.Schema:
    return pl.Schema({field.name: _polars(field.name, field.dataType) for field in fields})


def _polars(column: str, found: DataType) -> pl.DataType:
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(found, T.StructType):
        return pl.Struct({f.name: _polars(f"{column}.{f.name}", f.dataType) for f in found})
    if isinstance(found, T.ArrayType):
        return pl.List(_polars(f"{column}[]", found.elementType))
    if isinstance(found, T.MapType):
        key, value = (_polars(f"{column}.{n}", t) for n, t in _entry(found))
        return pl.List(pl.Struct({"key": key, "value": value}))
    if isinstance(found, T.DecimalType):
        return pl.Decimal(found.precision, found.scale)
    if isinstance(found, T.StringType):
        return pl.String()
    if isinstance(found, T.DayTimeIntervalType):
        return pl.Duration("us")
    if isinstance(found, T.TimeType):
        return pl.Time()
    if "." not in column and "[]" not in column:
        if isinstance(found, T.YearMonthIntervalType):
            return pl.Int32()
        if isinstance(found, T.CalendarIntervalType):
            return pl.String()
    leaf = _LEAVES.get(found.simpleString())
    if leaf is None:
        raise PluginError(f"column {column}: state by key can't hold {found.simpleString()}")
    return leaf  # type: ignore[no-any-return]


def _entry(found: Any) -> list[tuple[str, Any]]:
    return [("key", found.keyType), ("value", found.valueType)]


def spark_type(found: pl.DataType) -> DataType:
    """Return the Spark type of a Polars one, for columns that no port has.

    Raises:
        PluginError: there is none.
    """
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(found, pl.Struct):
        return T.StructType([T.StructField(f.name, spark_type(f.dtype)) for f in found.fields])  # type: ignore[arg-type]
    if isinstance(found, pl.List):
        return T.ArrayType(spark_type(found.inner))  # type: ignore[arg-type]
    if isinstance(found, pl.Decimal):
        return T.DecimalType(found.precision or 38, found.scale)
    if isinstance(found, pl.Duration):
        return T.DayTimeIntervalType(0, 3)
    if isinstance(found, pl.Time):
        return T.TimeType()
    for name, leaf in _LEAVES.items():
        if leaf == found:
            return T._parse_datatype_string(name) if name == "void" else _LEAF_TYPES()[name]
    raise PluginError(f"Spark has no type for {found}")


def _LEAF_TYPES() -> Mapping[str, DataType]:  # noqa: N802
    from pyspark.sql import types as T  # noqa: N812

    kinds = (
        T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType,
        T.StringType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType, T.VariantType,
    )  # fmt: skip
    return {kind().simpleString(): kind() for kind in kinds}


def travelling(column: str, found: DataType) -> str:
    """Return the SQL by which a column goes to Arrow."""
    from pyspark.sql import types as T  # noqa: N812

    name = quoted(column)
    if isinstance(found, T.YearMonthIntervalType):
        return f"CAST(CAST({name} AS INTERVAL MONTH) AS INT) AS {name}"
    if isinstance(found, T.CalendarIntervalType):
        return f"CAST({name} AS STRING) AS {name}"
    return name


def travelled(sql: str, found: DataType) -> str:
    """Return the SQL by which a value comes back from Arrow; the other end of `travelling`."""
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(found, T.YearMonthIntervalType):
        return f"CAST(CAST({sql} AS INTERVAL MONTH) AS {found.simpleString()})"
    if isinstance(found, T.CalendarIntervalType):
        return f"CAST({sql} AS INTERVAL)"
    return sql


def arriving(found: StructType) -> StructType:
    """Return the types that columns have between `travelling` and `travelled`."""
    from pyspark.sql import types as T  # noqa: N812

    def type_of(field: Any) -> Any:
        if isinstance(field.dataType, T.YearMonthIntervalType):
            return T.IntegerType()
        if isinstance(field.dataType, T.CalendarIntervalType):
            return T.StringType()
        return field.dataType

    return T.StructType([T.StructField(f.name, type_of(f)) for f in found])
