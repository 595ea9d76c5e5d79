"""For authors of operators: functions on Arrow arrays, which Spark calls for each batch of rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mainstem.contracts.ddl import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from mainstem.formats.arrow import Array


def arrow_call(
    function: Callable[..., Any], returns: str, *columns: SparkColumn, once: bool = False
) -> SparkColumn:
    """Return what a function makes of columns: arrays in, an array of as many values out.

    Args:
        function: called in tasks, for each batch of rows; it goes there by pickle.
        returns: the type of the result, in DDL.
        once: whether it may give another result for the same row: Spark then calls it in one place.
    """
    from pyspark.sql import functions

    spark: Any = functions  # what is new is not in its stubs
    with warnings.catch_warnings():
        # It would rather see type hints, which would bring Arrow into each process that plans.
        warnings.simplefilter("ignore", UserWarning)
        made = spark.arrow_udf(function, returns, spark.ArrowUDFType.SCALAR)
    found: SparkColumn = (made.asNondeterministic() if once else made)(*columns)
    return found


def json_reader(
    columns: Sequence[Column],
) -> Callable[[Array], tuple[list[Array], list[str | None]]]:
    """Return a function that reads JSON objects by columns, as strictly as the operator `decode` does.

    It takes an array of bytes, and returns an array for each column, in the types of Spark's, and for
    each value why it is refused, or None. Called in tasks.

    Args:
        columns: all of known type. A column that an object does not have is null.
    """
    from mainstem.formats.json_values import JsonValues

    return JsonValues(columns).read


def write_rows(
    arrays: Sequence[Array], written: Callable[[tuple[Any, ...]], bytes]
) -> tuple[Array, list[str | None]]:
    """Return the values of rows as an array of binary, and for each row why it has none, or None.

    For a `ValueWriter`. Called in tasks.

    Args:
        arrays: one for each column. Times are given as numbers, microseconds and days.
        written: makes bytes of a row; raises ValueError, whose text is the reason.
    """
    from mainstem.formats.arrow import pa

    values: list[bytes | None] = []
    reasons: list[str | None] = []
    for row in zip(*(without_times(array).to_pylist() for array in arrays), strict=True):
        values.append(None)
        reasons.append(None)
        try:
            values[-1] = written(row)
        except UnicodeEncodeError:
            reasons[-1] = "a text is not UTF-8"
        except ValueError as error:
            reasons[-1] = str(error)
    return pa.array(values, pa.binary()), reasons


def without_times(array: Array) -> Array:
    """Return an array with the numbers that times are, microseconds and days, everywhere in it.

    Python's own times have fewer years than Spark's. Called in tasks.
    """
    wanted = _numbers(array.type)
    return array if wanted == array.type else array.cast(wanted)


def _numbers(kind: Any) -> Any:
    from mainstem.formats.arrow import pa

    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_map(kind):
        return pa.map_(_numbers(kind.key_type), _numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_numbers(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _numbers(each.type)) for each in kind])
    return kind
