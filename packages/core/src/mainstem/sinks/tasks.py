"""For sinks that write from Spark's tasks: the tasks run once, and report which rows were refused."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mainstem.contracts.columns import LOG_ORDER
from mainstem.contracts.ddl import quoted
from mainstem.contracts.shapes import COMMIT_VERSION
from mainstem.errors import FencedError, PermanentError, PipelineError, TransientError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import Column, DataFrame

#: The columns of `numbered`.
LANE, NUMBER = "_lane", "_number"
#: So many rows of a lane a batch can have, and so many batches a checkpoint, in 63 bits.
_ROWS = 2**36
_DDL = "reason STRING, payload BINARY, _id BINARY"
#: The message column whose values are packed before they go to a task.
_HEADERS = "map<string,binary>"
#: What a task may raise for the user to see, the more special first.
_ERRORS = {
    each.__name__: each for each in (FencedError, PermanentError, TransientError, PipelineError)
}
_LOCK = threading.Lock()
_COUNTERS: WeakKeyDictionary[SparkContext, Accumulator[int]] = WeakKeyDictionary()
_RAISED = re.compile(rf"\bmainstem\.errors\.({'|'.join(_ERRORS)}): ([^\n]+)")


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


def values_of(batch: pa.RecordBatch, name: str | None) -> Iterable[Any]:
    """Return the values of a column; nulls if there is none, or no name. Names compare as Spark's do."""
    place = _place(batch, name)
    return repeat(None, batch.num_rows) if place is None else batch.column(place).to_pylist()


def micros_of(batch: pa.RecordBatch, name: str) -> Iterable[int | None]:
    """Return the times of a column in microseconds since 1970, UTC; nulls if there is none."""
    import pyarrow as pa

    place = _place(batch, name)
    if place is None:
        return repeat(None, batch.num_rows)
    micros = batch.column(place).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return micros.to_pylist()


def _place(batch: pa.RecordBatch, name: str | None) -> int | None:
    wanted = None if name is None else name.lower()
    return next((n for n, each in enumerate(batch.schema.names) if each.lower() == wanted), None)


def in_partitions(
    frame: DataFrame, partitions: int | None, ordered_by: str | Column | None = None
) -> DataFrame:
    """Return a batch with the rows of each task as they shall be.

    Args:
        frame: the batch.
        partitions: how many there are at most, or with `ordered_by` altogether; None as Spark likes.
        ordered_by: a key, all of whose rows come into one partition and into the order of the log they
            are from, which costs a shuffle; None to leave the rows where they are. It goes by the key
            alone, so that a key is in one partition whatever the rest of the row says.
    """
    if ordered_by is not None:
        parts = () if partitions is None else (partitions,)
        return frame.repartition(*parts, ordered_by).sortWithinPartitions(*LOG_ORDER)
    return frame if partitions is None else frame.coalesce(partitions)


def numbered(frame: DataFrame, batch: int, lanes: int, key: str) -> DataFrame:
    """Return a batch with the same lanes and numbers for its rows whenever it is written.

    A lane has some keys, all of each, and is in one partition, in the order of its numbers: that of
    changes, of the rows' log where they have its columns, and of their `_id`s.

    Args:
        frame: the batch; its rows have an `_id`.
        batch: its id.
        lanes: how many there are.
        key: the column whose rows stay together, in order; those without a value go by their `_id`.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    names = {name.lower() for name in frame.columns}
    own = F.col(quoted(key)).cast("binary") if key.lower() in names else F.lit(None).cast("binary")
    lane = F.expr(f"pmod(xxhash64({LANE}), {lanes})").cast("int")
    order = [*(each for each in (COMMIT_VERSION, *LOG_ORDER) if each in names), "_id"]
    within = F.row_number().over(Window.partitionBy(LANE).orderBy(*order))
    made = frame.withColumn(LANE, F.coalesce(own, F.col("_id"))).withColumn(LANE, lane)
    number = within.cast("bigint") + F.lit(batch * _ROWS)
    return made.repartition(lanes, LANE).withColumn(NUMBER, number)


def batch_of(number: int) -> int:
    """Return the id of the batch that a number of `numbered` is of."""
    return number // _ROWS


def write_by_tasks(
    frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> DataFrame | None:
    """Let each partition of a batch be written by a task; return the rows that were refused, if any.

    The tasks run now, and reading what was refused runs none of them again.

    Args:
        frame: the batch.
        task: is given a partition's rows and yields what `Refused.take` does; it is pickled.

    Raises:
        TransientError, PermanentError, FencedError, PipelineError: as a task has raised it.
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
    counted = _counter(frame.sparkSession.sparkContext)
    task = partial(_counted, partial(_in_one_line, task), counted)
    before = counted.value
    try:
        refused = frame.mapInArrow(task, _DDL).localCheckpoint(eager=True)
    except Exception as error:
        raised = _raised_by_task(str(error))
        if raised is None:
            raise
        raise raised from None
    # Batches at the same time count too, so there may be none all the same; looking is a job of its own.
    return None if counted.value == before or refused.isEmpty() else refused


def _counter(context: SparkContext) -> Accumulator[int]:
    """Return what counts the refused rows of all batches; Spark keeps every one that is made."""
    with _LOCK:
        if context not in _COUNTERS:
            _COUNTERS[context] = context.accumulator(0)
        return _COUNTERS[context]


def _counted(
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    counted: Accumulator[int],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run a task and count its rows."""
    for rows in task(batches):
        counted.add(rows.num_rows)
        yield rows


def _raised_by_task(text: str) -> PipelineError | None:
    """Return the error of ours that Spark's holds with a task's traceback; None if it is another."""
    found = _RAISED.search(text)
    return None if found is None else _ERRORS[found[1]](found[2].strip())


def _in_one_line(
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run a task whose errors shall be found in Spark's: one of ours, whole, and not what it came of."""
    try:
        yield from task(batches)
    except PipelineError as error:
        kind = next(kind for kind in _ERRORS.values() if isinstance(error, kind))
        raise kind(" ".join(str(error).split())) from None


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
