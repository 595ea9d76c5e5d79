"""Asks the reader of a log as Spark asks it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from mainstem_ingress.log import Log
from mainstem_ingress.reading import LogPlanner, LogReading
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", MapType(StringType(), BinaryType())),
        StructField("timestamp", TimestampType()),
        StructField("origin", StringType()),
        StructField("partition", StringType()),
        StructField("position", StringType()),
        StructField("_reason", StringType()),
    ]
)


def reader(log: Log, **more: Any) -> LogPlanner:
    given = {"max_rows": 10**9, "max_bytes": 10**12, **more}
    return LogPlanner(LogReading(log.folder, **given))


def read(
    made: LogPlanner,
    start: Mapping[str, int],
    end: Mapping[str, int],
    schema: StructType = SCHEMA,
) -> list[dict[str, Any]]:
    """Return the rows of a range, task by task."""
    columns = to_arrow_schema(schema, timezone="UTC")
    return [
        row
        for part in made.parts(dict(start), dict(end))
        for batch in made.reading.read(part, columns)
        for row in batch.to_pylist()
    ]


def values(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["value"]) for row in rows]


def digest(rows: list[dict[str, Any]]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()
