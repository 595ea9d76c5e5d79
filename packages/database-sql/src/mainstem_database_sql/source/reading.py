"""The Spark data source behind the source `sql`: plans by `snapshots` or `polling`, reads their files.

The class that Spark is given is made for each node, with the node's options in it: as options of
Spark's the credentials would be shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from mainstem import MainstemError, OptionError, quoted
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from mainstem_database_sql.source import storing
from mainstem_database_sql.source.planning import Given
from mainstem_database_sql.source.polling import Polls
from mainstem_database_sql.source.snapshots import Offset, Rows, Snapshots, split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A task reads at least so many rows, where there are enough.
_TASK_ROWS = 20_000


def register(spark: SparkSession, given: Given) -> str:
    """Make a node's reading known to Spark; return the name of its format."""
    word = hashlib.sha256(f"{given.folder} {given.key}".encode()).hexdigest()[:16]
    name = f"mainstem_sql_{word}"
    spark.dataSource.register(type("Node", (SQLDataSource,), {"given": given, "word": name}))
    return name


class SQLDataSource(DataSource):
    """Reads the table of one node."""

    given: ClassVar[Given]
    word: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.word

    def schema(self) -> str:
        return ", ".join(f"{quoted(c.name)} {c.type}" for c in self.given.options.table_schema)

    def streamReader(self, schema: Any) -> SQLReader:  # noqa: N802  # Spark's name
        return SQLReader(schema, self.given)


class Part(InputPartition):
    """Rows for one task."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(tuple(rows))
        self.rows = rows


class SQLReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in the driver, reads in executors."""

    def __init__(self, schema: Any, given: Given) -> None:
        self._schema = schema
        self._tasks = given.tasks
        self._planner: Snapshots | Polls | None = given.planner()

    def __getstate__(self) -> dict[str, Any]:
        # An executor reads files and nothing else.
        return {**self.__dict__, "_planner": None}

    # -- in the driver ------------------------------------------------------------------------

    @property
    def planner(self) -> Snapshots | Polls:
        assert self._planner is not None  # noqa: S101
        return self._planner

    def initialOffset(self) -> Offset:  # noqa: N802
        return self.planner.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()  # ours is kept by the planner

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        with _told():
            return self.planner.latest(start)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with _told():
            self.planner.prepare()

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return None

    def partitions(self, start: Offset, end: Offset) -> list[Part]:
        with _told():
            found = split(self.planner.ranges(start, end), self._tasks, _TASK_ROWS)
        return [Part(rows) for rows in found]

    def commit(self, end: Offset) -> None:
        self.planner.committed(end)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    # -- in a task ----------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, Part)  # noqa: S101
        schema: pa.Schema = to_arrow_schema(self._schema, timezone="UTC")
        with _told():
            yield from storing.read(*partition.rows, schema)


class SourceError(Exception):
    """What the source says is wrong, in the form in which Spark's own errors are found in its logs."""


@contextmanager
def _told() -> Iterator[None]:
    """Let an error of ours come through: of others Spark's message has a traceback's first line."""
    try:
        yield
    except (MainstemError, OptionError) as error:
        raise SourceError(f"[SQL_SOURCE] {error}") from None
