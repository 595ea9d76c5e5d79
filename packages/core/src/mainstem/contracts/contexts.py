"""What the core hands to a component while a pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mainstem.contracts.log_source import Reading
from mainstem.contracts.shapes import Inputs, Shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader


class Progress(Protocol):
    """What Spark's checkpoint of a query says of one read of a source; can be sent to workers."""

    def planned(self) -> tuple[int, Any] | None:
        """Return the last batch that was planned and the offset it reads to, or None before the first.

        The offset is the source's own, or None while the read has none.
        """

    def committed(self) -> tuple[int, Any] | None:
        """Return the last batch that is done and the offset it read to, as `planned` does."""


class SourceContext(Protocol):
    """Handed to `Source.load`."""

    #: The node's name in the document.
    node: str
    spark: SparkSession
    #: Whether the identity of rows is used below this source; if not, reserved identity columns
    #: need not be made.
    identified: bool
    #: The named outputs that somebody reads, so that work for the others can be left out.
    wanted: frozenset[str]
    #: Names this read, the same in every run: pipeline, query, and which of its reads.
    read_name: str
    #: Whether the run ends when all that is there now has been read (`available_now`).
    bounded: bool
    #: What the checkpoint says of this read.
    progress: Progress
    #: Where Spark keeps its files of this read; need not exist.
    spark_folder: Path
    #: SQL for a row's number within the task that reads it, from 0: what Spark forbids on streams,
    #: and is sound for a source whose tasks always read the same rows in the same order.
    row_in_task: str

    def reader(self, beside: str = "") -> DataStreamReader:
        """Return a stream reader that carries the name under which the checkpoint knows this read.

        Each name can be taken once for each load. `beside` is a word for a further stream that the
        source needs beside its main one; the checkpoint knows that one by the read's name and the word.
        """

    def read_stream(self, format: str, **options: Any) -> DataFrame:  # noqa: A002
        """Return `reader().format(format).options(**options).load()`."""

    def read_planned(self, reading: Reading, beside: str = "") -> DataFrame:
        """Return what a `Reading` reads, by `reader(beside)`."""

    def folder(self) -> Path:
        """Return the node's durable folder, made when it is not there yet.

        It lies in the pipeline's checkpoint and lives as long as that. A replay or a preview of the
        pipeline gets the same.
        """


class OperatorContext(Protocol):
    """Handed to `Operator.apply`."""

    #: The node's name in the document.
    node: str
    spark: SparkSession
    #: The named outputs that somebody reads, so that work for the others can be left out.
    wanted: frozenset[str]
    #: What stands at the ports, as `Operator.shape` was given it.
    shapes: Inputs[Shape]
    #: Columns of event times at the ports whose nulls are counted already: at the watermark right above.
    timed: frozenset[str]

    def behind(self, time: Column) -> Column:
        """Return whether times of rows are before the watermark that their batch works under.

        For a step whose state is Spark's own, to tell late rows before Spark drops them: what it would
        drop, which is what was not after the watermark a batch ago, is among them. For a step that says
        so in `StateFacts.tells_late`.
        """

    def folder(self) -> Path:
        """Return the durable folder of the node's state, made when it is not there yet.

        A node that runs in two queries has one for each; it is set aside with the query's checkpoint.
        """


@dataclass(frozen=True)
class Batch:
    """One micro-batch for one sink.

    `id` counts from 0 within a checkpoint; a retry has the same. `query_id` is Spark's, made with
    the checkpoint and never used by another one, so (`query_id`, `id`) names the batch for ever.
    `shape` is what the rows are. `epoch` grows with every run of a checkpoint: an external system that
    has seen a higher one knows that this run has been replaced (see `FencedError`). `begins` is the id
    of the first batch that the sink was given: above 0 if the sink came later to the checkpoint. `run`
    is a random text, another one for each run, also of copies of a checkpoint, whose epochs are alike.
    `retried` is whether an earlier run had planned the batch: only then may some of it be written.
    """

    id: int
    pipeline: str
    query: str
    query_id: str
    sink: str
    spark: SparkSession
    shape: Shape
    epoch: int
    begins: int = 0
    run: str = ""
    retried: bool = True
