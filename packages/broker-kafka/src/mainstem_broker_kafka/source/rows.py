"""Spark's rows of Kafka as message columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Offsets have 63 bits.
_WIDTH = 19

#: A key that comes twice is a fault to Spark's maps; the last one counts, as to most readers of headers.
_HEADERS = """
CASE WHEN headers IS NULL THEN map()
     WHEN size(headers) = size(array_distinct(headers.key)) THEN map_from_entries(headers)
     ELSE map_from_entries(filter(headers, (header, i) ->
         i + 1 = size(headers)
         OR NOT array_contains(slice(headers.key, i + 2, size(headers)), header.key)))
END
"""


def messages(frame: DataFrame, *, headers: bool) -> DataFrame:
    """Return what Spark's source gives, in the columns of every message source.

    Args:
        frame: of Spark's format `kafka`.
        headers: whether it has headers; the column is null if not.
    """
    text = _HEADERS if headers else "NULL"
    return frame.selectExpr(
        "key",
        "value",
        f"CAST({text} AS MAP<STRING, BINARY>) AS headers",
        "timestamp",
        "topic AS origin",
        "CAST(partition AS STRING) AS partition",
        f"lpad(CAST(offset AS STRING), {_WIDTH}, '0') AS position",
    )
