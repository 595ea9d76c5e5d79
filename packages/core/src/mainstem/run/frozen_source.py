"""A stream that takes the place of a source's: it gives nothing and keeps the offset that it has.

A module of its own, since Spark loads it in the source's process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

FORMAT = "mainstem_standing_still"
#: Of a stream that gives nothing: what `unknown_null` makes its nulls of.
SCHEMA = "nothing STRING"


class StandingStill(DataSource):
    """Option: `offset`, as JSON."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> StandingStillReader:  # noqa: N802
        return StandingStillReader(self.options)


class StandingStillReader(DataSourceStreamReader):
    """Knows one offset."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._offset = json.loads(options["offset"])

    def initialOffset(self) -> Any:  # noqa: N802
        return self._offset

    def latestOffset(self, start: Any = None, limit: Any = None) -> Any:  # noqa: N802
        return self._offset

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter(())
