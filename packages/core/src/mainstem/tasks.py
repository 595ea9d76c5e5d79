"""For sinks that write from Spark's tasks: the tasks run once, and tell which rows were refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_DDL = "reason STRING, payload BINARY, _id BINARY"


class Refused:
    """Gathers the rows of a task that are refused, for the sink's `rejected`; threads may add to it."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, bytes | None, bytes | None]] = []
        self._lock = threading.Lock()

    def add(self, identity: bytes | None, payload: bytes | None, reason: str) -> None:
        """Note a row: its `_id`, what it holds, and why it is refused."""
        with self._lock:
            self._rows.append((reason, payload, identity))

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield what there is as one batch of rows, and forget it."""
        import pyarrow as pa

        with self._lock:
            rows, self._rows = self._rows, []
        if rows:
            reasons, payloads, identities = zip(*rows, strict=True)
            columns: list[pa.Array[Any]] = [
                pa.array(reasons, pa.string()),
                pa.array(payloads, pa.binary()),
                pa.array(identities, pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["reason", "payload", "_id"])


def write_by_tasks(
    frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame | None:
    """Let each partition of a batch be written by a task; return the rows that were refused, if any.

    The tasks run now, and reading what was refused runs none of them again.

    Args:
        frame: the batch.
        task: is given a partition's rows and yields what `Refused.take` does; it is pickled.
    """
    refused = frame.mapInArrow(task, _DDL).localCheckpoint(eager=True)
    return None if refused.isEmpty() else refused
