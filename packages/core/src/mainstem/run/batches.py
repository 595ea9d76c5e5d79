"""What happens with one micro-batch of a query: the steps below the anchor, then every sink."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from mainstem.contracts.abilities import Prepared, Typed
from mainstem.contracts.contexts import Batch
from mainstem.contracts.ddl import Column, quoted, short_form
from mainstem.contracts.shapes import REJECTED
from mainstem.crashpoints import failpoint
from mainstem.errors import PipelineError
from mainstem.history import History
from mainstem.observation.samples import Samples
from mainstem.plan.model import Plan, Query, SinkNode, Stream
from mainstem.run.batch_frames import BatchFrames
from mainstem.run.checkpoint import Checkpoint
from mainstem.run.failures import of_a_refusal
from mainstem.run.frames import Frames
from mainstem.run.sampling import Sampling
from mainstem.run.syncing import Syncing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Stopping(Exception):  # noqa: N818
    """Raised into a query instead of its next batch when the run has been told to stop."""


class Batches:
    """The function that Spark calls with each batch of a query.

    Attributes:
        error: the exception that ended a batch, kept since Spark passes on its text alone.
        node: the sink in hand when it happened.
        in_hand: the id of the batch that is being written, and since when by the monotonic clock.
        counts: rows by node, by batch id, until the runner has fetched them.

    Made when the query is about to start: what it has planned by then, an earlier run has.
    """

    def __init__(
        self,
        plan: Plan,
        query: Query,
        frames: Frames,
        checkpoint: Checkpoint,
        samples: Samples,
    ) -> None:
        self._plan = plan
        self._query = query
        self._frames = frames
        self._checkpoint = checkpoint
        self._sampling = Sampling(plan, query, samples)
        self._show_rows = samples.show_rows
        self._begins = checkpoint.begins(query.name)
        self._syncing = Syncing(checkpoint.query(query.name))
        self._history = History(checkpoint.query(query.name))
        self._planned = max(self._history.planned(), default=-1)
        self._nodes = (*query.streaming, *query.per_batch, *query.sinks)
        self.query_id = ""
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.node: str | None = None
        self.in_hand: tuple[int, float] | None = None
        self.counts: dict[int, dict[str, dict[str, int]]] = {}

    def check(self, streaming: DataFrame) -> None:
        """Build all steps and sink frames over no rows, so that Spark's analysis finds its faults.

        Raises:
            DocumentError: a sink can't hold a column of the frame that it would be given.
        """
        spark = streaming.sparkSession
        empty = spark.createDataFrame([], streaming.schema)
        made = self._begin(empty, 0)
        try:
            for name in self._query.sinks:
                sink = self._sink(name)
                frame, shape = self._sink_frame(made, sink), self._plan.shape(sink.streams[0])
                columns = [Column(c.name, short_form(c.dataType.jsonValue())) for c in frame.schema]
                with self._frames.blaming(sink):
                    if isinstance(sink.sink, Typed):
                        sink.sink.check_types(columns, shape)
                    if isinstance(sink.sink, Prepared):
                        sink.sink.prepare(columns, shape)
                self._nothing_refused(made, sink, spark)
        finally:
            made.release()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch; raises what went wrong, after keeping it.

        What asks Python to end comes as a failure too: Spark would wait for an answer for ever.
        """
        if self.stopping.is_set():
            raise Stopping
        self.in_hand = batch_id, time.monotonic()
        try:
            self._whole(frame, batch_id)
        except Exception as error:
            if isinstance(error, PipelineError) and error.node is None and self.node:
                error.node = self.node
                error.args = (f"{self.node}: {error}",)
            self.error = error
            raise
        except BaseException as error:
            told = f"{self.node or self._query.tail}: {type(error).__name__}: {error}"
            self.error = PipelineError(told, node=self.node)
            raise self.error from error
        finally:
            self.in_hand = None

    def _whole(self, frame: DataFrame, batch_id: int) -> None:
        failpoint("run.before-batch")
        self._syncing.planned(batch_id)
        looked_at, clock = self._sampling.begin(frame), self._history.planned_at(batch_id)
        made = self._begin(frame, batch_id, looked_at, clock)
        written: dict[str, dict[str, int]] = {}
        try:
            for name in self._query.sinks:
                self.node = name
                written[name] = self._write(made, self._sink(name), batch_id)
            self.node = None
            self._syncing.written()
            self.counts[batch_id] = made.counts() | written
            self._sampling.take(made, batch_id, self.counts[batch_id], self._sink_frame)
        finally:
            made.release()
        self._syncing.settle()
        failpoint("run.after-batch")

    def _begin(
        self,
        frame: DataFrame,
        batch_id: int,
        looked_at: Collection[str] = (),
        clock: int | None = None,
    ) -> BatchFrames:
        made = BatchFrames(self._frames, self._plan, self._nodes, looked_at, clock)
        tail = self._query.tail
        readers = [n for n in self._plan.readers(tail) if n in self._nodes]
        made.begin(tail, frame, batch_id, readers=len(readers))
        return made

    def _sink(self, name: str) -> SinkNode:
        node = self._plan.nodes[name]
        assert isinstance(node, SinkNode)  # noqa: S101
        return node

    def _sink_frame(self, made: BatchFrames, sink: SinkNode) -> DataFrame:
        """Return what a sink is given: its shape's columns, and the reserved ones that it uses."""
        if sink.name == self._query.tail:  # a union of streams with different anchors
            frame = made.read(Stream(sink.name))
        else:
            frame = self._frames.union([made.read(stream) for stream in sink.streams])
        shape = self._plan.shape(sink.streams[0])
        uses, there = set(sink.sink.capabilities.uses), set(frame.columns)
        names = [column.name for column in sink.given(shape)]
        columns = [name for name in names if name not in uses or name in there]
        return frame if frame.columns == columns else frame.select(*map(quoted, columns))

    def _write(self, made: BatchFrames, sink: SinkNode, batch_id: int) -> dict[str, int]:
        """Write a batch into a sink; return the count of rows it refused, if it can refuse any."""
        frame = self._sink_frame(made, sink)
        spark = frame.sparkSession
        batch = Batch(
            id=batch_id,
            pipeline=self._plan.pipeline,
            query=self._query.name,
            query_id=self.query_id,
            sink=sink.name,
            spark=spark,
            shape=self._plan.shape(sink.streams[0]),
            epoch=self._checkpoint.epoch,
            begins=self._begins.get(sink.name, 0),
            run=self._checkpoint.run,
            retried=batch_id <= self._planned,
        )
        assert sink.delivery is not None  # noqa: S101
        self._syncing.settle()
        refused = sink.delivery.write(sink.sink, frame, batch)
        if refused is not None:
            return {"rejected": self._refused(made, sink, refused)}
        self._nothing_refused(made, sink, spark)
        return {}

    def _nothing_refused(self, made: BatchFrames, sink: SinkNode, spark: SparkSession) -> None:
        """Give those who read what a sink refused no rows."""
        if self._plan.readers(sink.name, "rejected"):
            columns = ", ".join(column.ddl for column in REJECTED.columns)
            made.put(sink.name, spark.createDataFrame([], columns))

    def _refused(self, made: BatchFrames, sink: SinkNode, refused: Any) -> int:
        """Send on rows that a sink refused; return how many there are."""
        frame = self._frames.refused(sink, refused, {n: F.col(n) for n in ("reason", "payload")})
        frame = made.keep(frame)
        made.put(sink.name, frame)
        count = int(frame.count())
        if count and not sink.drops_rejected and not self._plan.readers(sink.name, "rejected"):
            first = frame.select("reason", F.hex("_id").alias("id")).first()
            row, reason = (first["id"], first["reason"]) if first else (None, "")
            if not self._show_rows:
                reason = of_a_refusal(reason, self._plan)
            raise PipelineError(
                f"{sink.name}: {count} rows were refused for good, and nobody reads "
                f"{sink.name}.rejected: {reason}",
                node=sink.name,
                row=row,
            )
        return count
