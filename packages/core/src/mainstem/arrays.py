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
