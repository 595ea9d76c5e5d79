"""Which rows are behind the watermark of their batch, for steps whose state is Spark's own.

Spark has no expression for the watermark. It notes the one that a batch works under in the checkpoint
before the batch begins, and tells tasks the batch's number.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.builtin.arrow_call import arrow_call
from mainstem.history import History

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column

_BATCH = "streaming.sql.batchId"


def behind(time: Column, query: Path) -> Column:
    """Return whether times are before the watermark that their batch works under; never null.

    Args:
        query: Spark's checkpoint folder of the query, which every worker can read.
    """
    return arrow_call(_Behind(query), "boolean", time)


class _Behind:
    """Compares times with the watermark of the task's batch."""

    def __init__(self, query: Path) -> None:
        self._history = History(query)
        self._known: dict[int, datetime | None] = {}

    def __call__(self, times: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        watermark = self._watermark()
        if watermark is None:
            return pa.array([False] * len(times), pa.bool_())
        return pc.fill_null(pc.less(times, pa.scalar(watermark, times.type)), False)

    def _watermark(self) -> datetime | None:
        from pyspark import TaskContext

        task = TaskContext.get()
        told = task.getLocalProperty(_BATCH) if task else None
        if told is None:
            return None
        batch = int(told)
        if batch not in self._known:
            self._known = {batch: self._history.offsets(batch).watermark}
        return self._known[batch]
