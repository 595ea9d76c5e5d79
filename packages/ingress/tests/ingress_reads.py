"""Asks the reader of a log as Spark asks it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from mainstem_ingress.log import Log
from mainstem_ingress.reading import IngressReader
from pyspark.sql.streaming.datasource import ReadAllAvailable
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
ALL = ReadAllAvailable()


def reader(log: Log, schema: StructType = SCHEMA, **options: object) -> IngressReader:
    given = {"folder": log.folder, "max_rows": 10**9, "max_bytes": 10**12, **options}
    return IngressReader(schema, {key: str(value) for key, value in given.items()})


def read(
    made: IngressReader, start: Mapping[str, int], end: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the rows of a range, task by task."""
    return [
        row
        for part in made.partitions(dict(start), dict(end))
        for batch in made.read(part)
        for row in batch.to_pylist()
    ]


def values(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["value"]) for row in rows]


def digest(rows: list[dict[str, Any]]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()
