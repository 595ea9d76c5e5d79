"""For sinks that write from Spark's tasks: the tasks run once, and tell which rows were refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem.contracts.ddl import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_DDL = "reason STRING, payload BINARY, _id BINARY"
#: The message column whose values are packed on their way to a task.
_HEADERS = "map<string,binary>"


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
    from pyspark.sql import functions as F  # noqa: N812

    kinds = {name.lower(): (name, kind) for name, kind in frame.dtypes}
    name, kind = kinds.get("headers", ("", ""))
    if kind == _HEADERS:
        # For each row Spark asks Arrow how large the batch has become, which takes long for maps, and
        # ever longer while they are null. As text they are cheap.
        text = f"to_json(transform_values({quoted(name)}, (name, value) -> hex(value)))"
        frame = frame.withColumn(name, F.expr(text))
        task = partial(_unpacked, task, frame.columns.index(name))
    refused = frame.mapInArrow(task, _DDL).localCheckpoint(eager=True)
    return None if refused.isEmpty() else refused


def _unpacked(
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    place: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run a task whose batches have headers as text, and shall have them as maps."""
    return task(_with_maps(batch, place) for batch in batches)


def _with_maps(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    import pyarrow as pa

    texts = batch.column(place)
    kind = pa.map_(pa.string(), pa.binary())
    if texts.null_count == len(texts):
        maps: pa.Array[Any] = pa.nulls(len(texts), kind)
    else:
        maps = pa.array(map(_entries, texts.to_pylist()), kind)
    return batch.set_column(place, pa.field(batch.schema.field(place).name, kind), maps)


def _entries(text: str | None) -> list[tuple[str, bytes | None]] | None:
    if text is None:
        return None
    pairs: Iterable[tuple[str, str | None]] = json.loads(text).items()
    return [(name, None if value is None else bytes.fromhex(value)) for name, value in pairs]
