"""The frames below an anchor: those of one batch."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from mainstem.contracts.shapes import COMMIT_TIMESTAMP, COMMIT_VERSION, Inputs, sequenced_by_batch
from mainstem.plan.model import Plan, Stream
from mainstem.run.counting import counts
from mainstem.run.frames import Frames, identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchFrames:
    """The frames below an anchor, for one batch: each made once, and kept if it is read twice.

    Args:
        looked_at: the nodes that are read once more, by who looks at the run.
        clock: when the batch was planned, in milliseconds since 1970; None for one that nobody has.
    """

    def __init__(
        self,
        frames: Frames,
        plan: Plan,
        query_nodes: tuple[str, ...],
        looked_at: Collection[str] = (),
        clock: int | None = None,
    ) -> None:
        self._frames = frames
        self._plan = plan
        self._nodes = query_nodes
        self._looked_at = looked_at
        self._clock = clock
        self._made: dict[str, DataFrame] = {}
        self._refused: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self.observations: dict[str, Any] = {}

    def begin(self, tail: str, frame: DataFrame, batch_id: int, *, readers: int) -> None:
        """Take the batch's rows, which are those of a node."""
        node = self._plan.nodes[tail]
        if sequenced_by_batch(node.shape):
            frame = frame.withColumn(COMMIT_VERSION, F.lit(batch_id).cast("bigint"))
            frame = frame.withColumn(COMMIT_TIMESTAMP, F.lit(None).cast("timestamp"))
            if node.makes_id:
                frame = frame.withColumn("_id", identifier(tail, node.identity, frame))
        self._made[tail] = self.keep(frame) if self._often(tail, readers) else frame

    def put(self, name: str, frame: DataFrame) -> None:
        """Take the rows that a sink refused."""
        self._refused[name] = frame

    def _often(self, name: str, readers: int) -> bool:
        return readers + (name in self._looked_at) > 1

    def read(self, stream: Stream) -> DataFrame:
        """Return the rows of a stream in this batch."""
        if stream.output and stream.node in self._refused:
            return self._refused[stream.node]
        return self._frames.output(stream, self.whole(stream.node))

    def whole(self, name: str) -> DataFrame:
        """Return the rows of a node, with those of its named outputs still among them."""
        if name not in self._made:
            node = self._plan.nodes[name]
            inputs = Inputs(
                {
                    port: self._frames.union([self.read(stream) for stream in streams])
                    for port, streams in node.inputs.items()
                }
            )
            frame = self._observe(name, self._frames.apply(node, inputs, self._clock))
            readers = [r for r in self._plan.readers(name) if r in self._nodes]
            self._made[name] = self.keep(frame) if self._often(name, len(readers)) else frame
        return self._made[name]

    def _observe(self, name: str, frame: DataFrame) -> DataFrame:
        from pyspark.sql import Observation

        if name in self._frames.counted:
            return frame
        observation = Observation()
        self.observations[name] = observation
        return frame.observe(observation, *counts(frame, self._plan.nodes[name].outputs))

    def keep(self, frame: DataFrame) -> DataFrame:
        """Keep rows that are read more than once, until `release`."""
        self._kept.append(frame.persist())
        return frame

    def counts(self) -> dict[str, dict[str, int]]:
        """Return what was counted, by node, for the frames that were evaluated.

        What Spark leaves out of a plan, since nothing can come of it, has an empty row for metrics.
        """
        return {
            name: {key: int(value) for key, value in observation.get.items()}
            for name, observation in self.observations.items()
            if (java := observation._jo) is not None
            and java.future().isCompleted()
            and java.getRow().length()
        }

    def release(self) -> None:
        """Let go of what was kept."""
        for frame in self._kept:
            frame.unpersist()
