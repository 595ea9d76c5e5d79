"""Watermarks and the control stream.

A control stream is a second, tiny input of a node with a watermark: rows that have a time and nothing
else, let in before the watermark and dropped right after it. The runner writes one row as one file
into the node's folder `control`. It is added only where it is asked for: by `flush` or `idle_after` in
the document, or by a test that scripts time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from mainstem.contracts.ddl import quoted
from mainstem.contracts.options import write_duration
from mainstem.contracts.shapes import CARRIED, EVENT_TIME
from mainstem.durable import made_folder, sync_file, sync_folder
from mainstem.event_time import in_millis, moved
from mainstem.paths import for_spark
from mainstem.plan.model import Node, Plan, Query
from mainstem.run.counting import TIMED, timed, timed_counts
from mainstem.run.nulls import NOTHING, unknown_null

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from mainstem.run.bootstrap import Waiting
    from mainstem.run.checkpoint import Checkpoint

_CONTROL = "_control"
#: So many control rows stay in a folder; batches that have read older ones are long done.
_KEPT = 100
#: As much of a control file's name as tells its time in milliseconds; see `_stem`.
_TO_MILLIS = len("20260101T000000.000")


class Watermarks:
    """Puts the watermarks of one query on its frames, and moves them by the control stream.

    Args:
        waiting: holds back the streams whose turn has not come, while something is loaded.
    """

    def __init__(
        self,
        plan: Plan,
        query: Query,
        spark: SparkSession,
        checkpoint: Checkpoint,
        waiting: Waiting | None = None,
    ) -> None:
        self._waiting = waiting
        self._plan = plan
        self._query = query
        self._spark = spark
        self._checkpoint = checkpoint
        self._reads: dict[str, int] = {}
        self._timed = timed(plan, query)
        #: Whether anything goes by them.
        self.used = bool(self._timed)

    def put(self, node: Node, frame: DataFrame) -> DataFrame:
        """Return a node's streaming frame with its watermark, if anything below goes by it.

        Its rows are counted there too: see `counts`.
        """
        wanted = node.watermark
        if CARRIED in frame.columns:
            return self._carried(node, frame)
        if wanted is None or not self.used:
            return frame
        if node.partitions is not None:
            # The relay below makes a watermark of the rows: here it is moved from outside alone.
            nothing = F.lit(None).cast("timestamp")
            return self._carried(node, frame.withColumn(CARRIED, nothing))
        delay = write_duration(wanted.delay)
        column = quoted(wanted.column)
        count = self._reads[node.name] = self._reads.get(node.name, 0) + 1
        if not self._plan.controlled(node):
            return self._counted(node, count, frame.withWatermark(column, delay))
        marked = frame.withColumn(_CONTROL, F.lit(False))
        timed = {wanted.column: F.col("at"), _CONTROL: F.lit(True)}
        both = marked.unionByName(self._control(node, count, marked, timed))
        # Naming the column keeps the optimizer from pushing the filter below the watermark.
        rows = (
            both.withWatermark(column, delay)
            .where(f"NOT ({_CONTROL} AND {column} IS NOT NULL)")
            .drop(_CONTROL)
        )
        return self._counted(node, count, rows)

    def _counted(self, node: Node, count: int, frame: DataFrame) -> DataFrame:
        """Count rows right above their watermark.

        The optimizer pushes no condition of a step below this, so that all rows move the watermark, and
        control rows come to it, whose other columns are null.
        """
        assert node.watermark is not None  # noqa: S101
        name = f"{node.name}__{TIMED}{count}"
        return frame.observe(name, *timed_counts(frame, node.outputs, node.watermark.column))

    def counts(self, node: Node) -> bool:
        """Whether a node's rows are counted at its watermark."""
        return node.name in self._timed

    def _carried(self, node: Node, frame: DataFrame) -> DataFrame:
        """Return the frame of a source that reports its own event-time progress."""
        wanted = node.watermark
        if wanted is None or not self.used:
            return frame.where(f"{CARRIED} IS NULL").drop(CARRIED)
        column = quoted(wanted.column)
        count = self._reads[node.name] = self._reads.get(node.name, 0) + 1
        if self._plan.controlled(node):
            timed = {CARRIED: F.col("at")}
            frame = frame.unionByName(self._control(node, count, frame, timed))
        # The rows' own times move nothing, and are what steps below go by.
        rows = frame.withWatermark(CARRIED, "0 seconds").where(f"{CARRIED} IS NULL").drop(CARRIED)
        marked = F.col(column).alias(wanted.column, metadata={EVENT_TIME: 0})
        names = rows.columns
        rows = rows.select(*(marked if n == wanted.column else F.col(quoted(n)) for n in names))
        return self._counted(node, count, rows)

    def _control(
        self, node: Node, count: int, frame: DataFrame, timed: Mapping[str, Column]
    ) -> DataFrame:
        """Return a node's control rows in the columns of a frame, null but for those that are timed."""
        name = f"{node.name}__control" + (f"{count}" if count > 1 else "")
        control = (
            self._spark.readStream.name(name)
            .schema(f"at TIMESTAMP, {NOTHING} STRING")
            .json(for_spark(self._folder(node)))
        )
        if self._waiting is not None:
            control = self._waiting.control(node.name, name, control)
        return control.select(
            *(
                timed.get(field.name, unknown_null(field.dataType)).alias(field.name)
                for field in frame.schema.fields
            )
        )

    def streams(self, name: str) -> int:
        """Return how often a node stands in the query's frames, once they are made."""
        return self._reads.get(name, 0)

    def _folder(self, node: Node) -> Path:
        return made_folder(self._checkpoint.node(node.name) / "control" / self._query.name)

    def flush(self, latest: datetime | None, watermark: datetime | None) -> bool:
        """Write the control rows that close everything the query holds; False if there is nothing.

        Args:
            latest: the latest event time of all rows that the query has read, or None if not known.
            watermark: the query's watermark, or None if it never had one.

        The watermark moves just far enough past the latest event to complete what that event takes
        part in, so that the next run's events are not late.
        """
        steps = [self._plan.nodes[name] for name in self._query.streaming]
        holds = sum((node.state.holds for node in steps if node.state), timedelta())
        written = False
        for node in steps:
            if node.watermark is None or not self.used:
                continue
            folder, delay = self._folder(node), _delay(node)
            files = folder.glob("*.json")
            before = max((file.stem.partition("-")[0] for file in files), default="")
            reached = moved(watermark, delay) if watermark else None
            # A watermark that a flush has made tells of no event since; it is in whole milliseconds.
            made = reached is not None and before[:_TO_MILLIS] == _stem(reached)[:_TO_MILLIS]
            seen = [reached] if reached and not made else []
            if latest:
                seen.append(latest)
            if not seen:
                continue
            # The first whole millisecond behind it, as far as Spark goes.
            at = moved(in_millis(max(seen)), holds + delay + timedelta(milliseconds=1))
            if _stem(at) <= before:
                continue
            _write(folder, at)
            written = True
        return written

    def advance(self, name: str, to: datetime) -> None:
        """Write the control row that moves a node's watermark to a time, if it is not beyond it."""
        node = self._plan.nodes[name]
        if node.watermark is not None and self.used and name in self._query.streaming:
            folder = self._folder(node)
            _write(folder, moved(to, _delay(node)))
            for old in sorted(folder.glob("*.json"))[:-_KEPT]:
                old.unlink(missing_ok=True)

    def repeat(self, name: str, latest: datetime | None) -> None:
        """Write once more how far a node is, which Spark forgets with the query that ends.

        Args:
            name: the node, all of whose rows have been read.
            latest: the latest event time that is known of it, or None.
        """
        node = self._plan.nodes[name]
        if node.watermark is None or not self.used or not self._plan.controlled(node):
            return
        folder = self._folder(node)
        written = max(folder.glob("*.json"), default=None)
        known = [latest] if latest else []
        if written is not None:
            known.append(datetime.fromisoformat(json.loads(written.read_text())["at"]))
        if known:
            _write(folder, max(known), f"-{time.time_ns()}")  # Spark reads a name once


def _delay(node: Node) -> timedelta:
    """Return how far the query's watermark stays behind what a node's control rows say."""
    return node.watermark.delay if node.watermark and not node.partitions else timedelta()


def _write(folder: Path, at: datetime, more: str = "") -> None:
    hidden = folder / f".{_stem(at)}"
    hidden.write_text(json.dumps({"at": at.astimezone(UTC).isoformat()}) + "\n")
    sync_file(hidden)
    hidden.replace(folder / f"{_stem(at)}{more}.json")
    sync_folder(folder)


def _stem(at: datetime) -> str:
    """Return the name of the control file for a time; names order as times do."""
    at = at.astimezone(UTC)
    return f"{at.year:04}{at:%m%dT%H%M%S.%f}"
