"""Rows that go to the state: packed before the shuffle, one packed row for each bucket.

PySpark turns the rows of a group into Python tuples one by one; a packed row is Arrow data as a whole, so
that neither that nor Spark's sort by group costs anything by the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstem_keyed_state.arrays import to_plain
from mainstem_keyed_state.hashes import keyed_by
from mainstem_keyed_state.logic import KEY

if TYPE_CHECKING:
    import polars as pl

#: The columns of packed rows; PySpark loses names that begin with an underscore.
PACKED = "bucket INT, port INT, payload BINARY"
#: A task packs what it has when it holds this much; the more at once, the fewer packed rows.
_HELD_BYTES = 32 * 1024 * 1024
_HELD_ROWS = 250_000

Batches = Iterator[pa.RecordBatch]


def packer(
    port: int, labels: tuple[int, ...], copies: int | None = None
) -> Callable[[Batches], Batches]:
    """Return the function for `mapInArrow` that packs rows, whose `KEY` has the key's values.

    Args:
        port: its number.
        labels: of the buckets.
        copies: for rows that go to every bucket: the port's number in all but one.
    """

    def packed(held: list[pa.RecordBatch]) -> Batches:
        if copies is None:
            yield _packed(held, port, labels)
        else:
            rows = _plain(held)
            for at, label in enumerate(labels):
                number = copies if at else port
                yield _sent(np.array([label], np.int32), np.array([number], np.int32), [rows])

    def pack(batches: Batches) -> Batches:
        held: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _HELD_ROWS or size >= _HELD_BYTES:
                yield from packed(held)
                held, rows, size = [], 0, 0
        if held:
            yield from packed(held)

    return pack


def _whole(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def _plain(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return rows with their keys' hashes."""
    whole = _whole(batches)
    keys, _ = keyed_by(whole.column(KEY))
    return _with_keys(whole, keys)


def _with_keys(whole: pa.RecordBatch, keys: Any) -> pa.RecordBatch:
    columns = {
        n: to_plain(column) for n, column in zip(whole.schema.names, whole.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict({**columns, KEY: keys})


def _packed(batches: list[pa.RecordBatch], port: int, labels: tuple[int, ...]) -> pa.RecordBatch:
    """Return a packed row for each bucket that has rows. Rows without a key go to all in turn."""
    whole = _whole(batches)
    keys, hashes = keyed_by(whole.column(KEY))
    plain = _with_keys(whole, keys)
    buckets = np.uint32(len(labels))
    bucket = hashes % buckets
    if keys.null_count:
        none = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
        bucket[none] = np.arange(len(none), dtype=np.uint32) % buckets
    order = np.argsort(bucket, kind="stable")
    plain = plain.take(order)
    there, starts = np.unique(bucket[order], return_index=True)
    ends = [*starts[1:], len(bucket)]
    parts = [
        plain.slice(int(start), int(end - start)) for start, end in zip(starts, ends, strict=True)
    ]
    return _sent(np.array(labels, np.int32)[there], np.full(len(there), port, np.int32), parts)


def _sent(
    buckets: npt.NDArray[np.int32], ports: npt.NDArray[np.int32], parts: list[pa.RecordBatch]
) -> pa.RecordBatch:
    """Return packed rows; their payloads are written one behind the other, to where they stay."""
    sink, ends = pa.BufferOutputStream(), [0]
    for part in parts:
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_batch(part)
        ends.append(sink.tell())
    where = pa.array(ends, pa.int32()).buffers()[1]
    payloads = pa.Array.from_buffers(pa.binary(), len(parts), [None, where, sink.getvalue()])
    return pa.RecordBatch.from_arrays(
        [pa.array(buckets), pa.array(ports), payloads], names=["bucket", "port", "payload"]
    )


def unpacked(payload: bytes | bytearray | memoryview, schema: pl.Schema) -> pl.DataFrame:
    """Return the rows of a packed row, whose columns stand in the order of the schema's."""
    import polars as pl

    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        frame = pl.from_arrow(reader.read_all())
    assert isinstance(frame, pl.DataFrame)  # noqa: S101
    frame.columns = schema.names()
    return frame.cast(dict(schema)) if frame.schema != schema else frame  # type: ignore[arg-type]
