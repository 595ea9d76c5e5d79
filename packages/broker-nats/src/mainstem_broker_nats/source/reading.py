"""The Spark data source behind streams that are read by sequence.

The class that Spark is given is made for each node, with the node's options in it: as options of
Spark's the secrets would be shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from mainstem import MainstemError, OptionError
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from mainstem_broker_nats.connecting import NATSError
from mainstem_broker_nats.source import columns
from mainstem_broker_nats.source.planning import Given, Offset, Planner
from mainstem_broker_nats.source.ranges import Chunk, Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Rows go to Spark in batches of about so many, or so many bytes.
_ROWS, _BYTES = 4_000, 16 * 2**20
#: Begins the text of what is wrong, where Spark's own errors have their class.
_ERROR_CLASS = "NATS_SOURCE"
_BUILD: dict[str, tuple[columns.Build, str]] = {
    "messages": (columns.message_rows, columns.MESSAGE_SCHEMA),
    "changes": (columns.change_rows, columns.CHANGE_SCHEMA),
}


def register(spark: SparkSession, given: Given, reading: str) -> str:
    """Make a node's reading known to Spark; return the name of its format."""
    word = hashlib.sha256(f"{reading} {given.begin} {given.stream}".encode()).hexdigest()[:16]
    name = f"mainstem_nats_{word}"
    spark.dataSource.register(type("Node", (StreamDataSource,), {"given": given, "word": name}))
    return name


class StreamDataSource(DataSource):
    """Reads the stream of one node."""

    given: ClassVar[Given]
    word: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.word

    def schema(self) -> str:
        return _BUILD[self.given.build][1]

    def streamReader(self, schema: Any) -> StreamReader:  # noqa: N802  # Spark's name
        return StreamReader(schema, self.given)


class Part(InputPartition):
    """A range of sequences for one task, of the stream that was made at a time."""

    def __init__(self, created: str, after: int, end: int) -> None:
        super().__init__((created, after, end))
        self.created = created
        self.after = after
        self.end = end


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in the driver, reads in executors."""

    def __init__(self, schema: Any, given: Given) -> None:
        self._schema = schema
        self._given = given
        self._planner: Planner | None = Planner(given)

    def __getstate__(self) -> dict[str, Any]:
        # An executor has connections of its own.
        return {**self.__dict__, "_planner": None}

    # -- in the driver ------------------------------------------------------------------------

    @property
    def planner(self) -> Planner:
        assert self._planner is not None  # noqa: S101
        return self._planner

    def initialOffset(self) -> Offset:  # noqa: N802
        with _told():
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
            found = self.planner.ranges(start, end)
        return [Part(str(start["created"]), after, last) for after, last in found]

    def commit(self, end: Offset) -> None:
        pass  # nothing is acknowledged

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    # -- in a task ----------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, Part)  # noqa: S101
        given = self._given
        schema: pa.Schema = to_arrow_schema(self._schema, timezone="UTC")
        build = _BUILD[given.build][0]
        tells = given.gaps != "ignore"
        # Ended from the inside out, also when Spark wants no more: a range takes leave over the
        # connection.
        with _told(), closing(given.open("reader")) as stream:
            whole = Range(
                stream, partition.created, partition.after, partition.end, gaps=tells
            ).chunks()
            with closing(whole) as chunks:
                for chunk in _together(chunks):
                    if chunk.gaps and given.gaps == "fail":
                        raise NATSError(
                            f"the stream {given.stream!r} lacks {chunk.gaps[0].first} to "
                            f"{chunk.gaps[0].last}: {chunk.gaps[0].reason}. `on_loss: report` goes on "
                            "and tells of it",
                            lasting=True,
                        )
                    yield build(chunk, given.stream, schema)


def _together(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield chunks of a size that makes their way to Spark cheap."""
    whole, size = Chunk(), 0
    for chunk in chunks:
        whole.messages += chunk.messages
        whole.sequences += chunk.sequences
        whole.times += chunk.times
        whole.gaps += chunk.gaps
        size += sum(len(raw.data) for raw in chunk.messages)
        if len(whole.messages) >= _ROWS or size >= _BYTES:
            yield whole
            whole, size = Chunk(), 0
    if whole.messages or whole.gaps:
        yield whole


class SourceError(Exception):
    """What the source says is wrong, in the form in which Spark's own errors are found in its logs."""


@contextmanager
def _told() -> Iterator[None]:
    """Let an error of ours come through: of others Spark's message has a traceback's first line."""
    try:
        yield
    except (MainstemError, OptionError) as error:
        raise SourceError(f"[{_ERROR_CLASS}] {error}") from None
