"""The Spark data source around a `Reading`.

A module of its own, since Spark loads it in the source's process and in tasks. The class that Spark is
given is made for each read, with the `Reading` in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from mainstem.contracts.log_source import Offset, Planner, Reading
from mainstem.errors import MainstemError, OptionError
from mainstem.run.failures import SAID
from mainstem.run.syncing import sync_done

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(
    spark: SparkSession, reading: Reading, node: str, name: str, records: Path | None = None
) -> str:
    """Make a read of a node known to Spark; return the name of its format.

    Args:
        spark: where.
        reading: takes the place of one that had the same name.
        node: the node's name in the document.
        name: tells the read from every other of the session.
        records: Spark's checkpoint of the query, which is synced before `reading` hears what is done.
    """
    word = f"{node}_{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    given = {"reading": reading, "node": node, "word": word, "records": records}
    spark.dataSource.register(type("Read", (ReadingSource,), given))
    return word


class ReadingSource(DataSource):
    """What Spark is given of one read."""

    reading: ClassVar[Reading]
    node: ClassVar[str]
    word: ClassVar[str]
    records: ClassVar[Path | None]

    @classmethod
    def name(cls) -> str:
        return cls.word

    def schema(self) -> str:
        return self.reading.schema()

    def streamReader(self, schema: Any) -> ReadingStream:  # noqa: N802  # Spark's name
        return ReadingStream(schema, self.reading, self.node, self.records)


class ReadingStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans beside the driver, reads in executors."""

    def __init__(
        self, schema: Any, reading: Reading, node: str, records: Path | None = None
    ) -> None:
        self._schema = schema
        self._node = node
        self._records = records
        self._start: Offset | None = None
        self._reading = reading
        self._made: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        # An executor opens what it needs itself.
        return {**self.__dict__, "_made": None}

    # -- beside the driver --------------------------------------------------------------------

    @property
    def _planner(self) -> Planner:
        if self._made is None:
            self._made = self._reading.planner()
        return self._made

    def initialOffset(self) -> Offset:  # noqa: N802
        with _told(self._node):
            return self._planner.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()  # the limits are the planner's

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        with _told(self._node):
            if start != self._start:  # all before it is done, and the planner may let go of it
                if self._records is not None:
                    sync_done(self._records)
                self._start = start
            return self._planner.latest(start)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with _told(self._node):
            self._planner.prepare()

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        with _told(self._node):
            return self._planner.newest()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        with _told(self._node):
            return [InputPartition(each) for each in self._planner.parts(start, end)]

    def commit(self, end: Offset) -> None:
        with _told(self._node):
            self._planner.committed(end)

    def stop(self) -> None:
        if self._made is not None:
            self._made.close()

    # -- in a task ----------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema: pa.Schema = to_arrow_schema(self._schema, timezone="UTC")
        with _told(self._node):
            yield from self._reading.read(partition.value, schema)


class SourceError(Exception):
    """What a source says is wrong, in the form in which Spark's own errors are found in its logs."""


@contextmanager
def _told(node: str) -> Iterator[None]:
    """Let an error of ours come through: of others Spark's message has a traceback's first line."""
    try:
        yield
    except (MainstemError, OptionError) as error:
        raise SourceError(f"{SAID} {node}: {error}") from None
