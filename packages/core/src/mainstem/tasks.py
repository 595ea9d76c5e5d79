"""For sinks that write from Spark's tasks: the tasks run once, and tell which rows were refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_DDL = "reason STRING, payload BINARY, _id BINARY"
_HEADERS = "headers"


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
        frame: the batch. The task is given an empty map where the message column `headers` is null and
            that of another row of the same record batch is not.
        task: is given a partition's rows and yields what `Refused.take` does; it is pickled.
    """
    from pyspark.sql import functions as F  # noqa: N812

    kind = dict(frame.dtypes).get(_HEADERS, "")
    if kind.startswith("map<"):
        # For each row Spark asks Arrow how large the batch has become, and to answer Arrow goes through
        # all nulls at the end of a map column: n rows without headers would cost n * n steps.
        frame = frame.withColumn(_HEADERS, F.coalesce(_HEADERS, F.expr(f"CAST(map() AS {kind})")))
        task = partial(_with_nulls, task)
    refused = frame.mapInArrow(task, _DDL).localCheckpoint(eager=True)
    return None if refused.isEmpty() else refused


def _with_nulls(
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run a task whose batches have null headers again if there are none at all."""
    return task(map(_nulled, batches))


def _nulled(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    place = batch.schema.get_field_index(_HEADERS)
    field, headers = batch.schema.field(place), batch.column(place)
    offsets = cast("pa.MapArray[Any, Any]", headers).offsets
    if offsets[0] != offsets[-1]:
        return batch
    return batch.set_column(place, field, pa.nulls(len(headers), field.type))
