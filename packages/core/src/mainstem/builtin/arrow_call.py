"""Functions on Arrow arrays in Spark's plans."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def arrow_call(function: Callable[..., Any], returns: str, *columns: SparkColumn) -> SparkColumn:
    """Return what a function makes of columns: arrays in, an array of as many values out.

    Args:
        function: called in tasks, for each batch of rows; it goes there by pickle.
        returns: the type of the result, in DDL.
    """
    from pyspark.sql import functions

    spark: Any = functions  # what is new is not in its stubs
    with warnings.catch_warnings():
        # It would rather see type hints, which would bring Arrow into each process that plans.
        warnings.simplefilter("ignore", UserWarning)
        made = spark.arrow_udf(function, returns, spark.ArrowUDFType.SCALAR)
    found: SparkColumn = made(*columns)
    return found
