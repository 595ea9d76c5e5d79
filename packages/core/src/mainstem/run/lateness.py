"""Which rows are behind the watermark of their batch, for steps whose state is Spark's own.

Spark has no expression for the watermark. It notes the one that a batch works under in the checkpoint
before the batch begins, and tells tasks the batch's number. Its own steps drop what is not after the
watermark of the batch before.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.arrays import arrow_call
from mainstem.history import History

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column

_BATCH = "streaming.sql.batchId"


def behind(time: Column, query: Path) -> Column:
    """Return whether times are before the watermark of their batch, or what Spark would drop; never null.

    Args:
        query: Spark's checkpoint folder of the query, which every worker can read.
    """
    return arrow_call(_Behind(query), "boolean", time)


class _Behind:
    """Compares times with the watermark of the task's batch."""

    def __init__(self, query: Path) -> None:
        self._history = History(query)
        self._known: dict[int, tuple[datetime | None, datetime | None]] = {}

    def __call__(self, times: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        before, now = self._watermarks()
        late: Any = pa.array([False] * len(times), pa.bool_())
        if before is not None:
            late = pc.or_(late, pc.less_equal(times, pa.scalar(before, times.type)))
        if now is not None:
            late = pc.or_(late, pc.less(times, pa.scalar(now, times.type)))
        return pc.fill_null(late, False)

    def _watermarks(self) -> tuple[datetime | None, datetime | None]:
        """Return the watermarks of the batch before this task's and of this one."""
        from pyspark import TaskContext

        task = TaskContext.get()
        told = task.getLocalProperty(_BATCH) if task else None
        if told is None:
            return None, None
        batch = int(told)
        if batch not in self._known:
            before = self._history.offsets(batch - 1).watermark if batch else None
            self._known = {batch: (before, self._history.offsets(batch).watermark)}
        return self._known[batch]
