"""Spark's rows of Kafka as message columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The first and the last time of the years 1 to 9999, in milliseconds since 1970.
FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
#: Offsets have 63 bits.
WIDTH = 19

#: A key that comes twice is a fault to Spark's maps; the last one counts, as to most readers of headers.
_HEADERS = """
CASE WHEN headers IS NULL THEN map()
     WHEN size(headers) = size(array_distinct(headers.key)) THEN map_from_entries(headers)
     ELSE map_from_entries(filter(headers, (header, i) ->
         i + 1 = size(headers)
         OR NOT array_contains(slice(headers.key, i + 2, size(headers)), header.key)))
END
"""


#: The header of a message whose timestamp is beyond the years 1 to 9999, with its milliseconds; the
#: column is then null.
FAR = "mainstem-timestamp"
_FIRST, _LAST = "TIMESTAMP '0001-01-01 00:00:00Z'", "TIMESTAMP '9999-12-31 23:59:59.999999Z'"
_TOO_FAR = f"timestamp NOT BETWEEN {_FIRST} AND {_LAST}"


def messages(frame: DataFrame, *, headers: bool) -> DataFrame:
    """Return what Spark's source gives, in the columns of every message source.

    Args:
        frame: of Spark's format `kafka`.
        headers: whether it has headers; the column is null if not.
    """
    text = f"CAST({_HEADERS if headers else 'NULL'} AS MAP<STRING, BINARY>)"
    # A message may have that header already.
    others = f"map_filter(coalesce({text}, map()), (name, _) -> name != '{FAR}')"
    why = f"map('{FAR}', CAST(CAST(unix_millis(timestamp) AS STRING) AS BINARY))"
    return frame.selectExpr(
        "key",
        "value",
        f"IF({_TOO_FAR}, map_concat({others}, {why}), {text}) AS headers",
        f"IF({_TOO_FAR}, NULL, timestamp) AS timestamp",
        "topic AS origin",
        "CAST(partition AS STRING) AS partition",
        f"lpad(CAST(offset AS STRING), {WIDTH}, '0') AS position",
    )
