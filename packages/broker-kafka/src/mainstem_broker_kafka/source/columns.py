"""Turns the second client's messages into record batches, with the rows that `rows.messages` makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstem_broker_kafka.source.rows import FAR, FIRST, LAST, WIDTH

SCHEMA = (
    "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, origin STRING, "
    "partition STRING, position STRING"
)


def record_batch(messages: Sequence[Any], schema: pa.Schema, *, headers: bool) -> pa.RecordBatch:
    """Return messages as rows of `SCHEMA`.

    Args:
        messages: of the client, of one partition, in their order.
        schema: `SCHEMA`, as Spark has it in Arrow.
        headers: whether the column `headers` is filled; if not, only where there is no timestamp.
    """
    millis = [message.timestamp()[1] for message in messages]
    far = [not FIRST <= each <= LAST for each in millis]
    pairs: list[list[tuple[str, bytes | None]] | None] = [
        _headers(message) if headers else None for message in messages
    ]
    for index in [index for index, beyond in enumerate(far) if beyond]:
        others = [pair for pair in pairs[index] or () if pair[0] != FAR]  # it is ours
        pairs[index] = [*others, (FAR, str(millis[index]).encode())]
    times = [None if beyond else each for beyond, each in zip(far, millis, strict=True)]
    offsets = pa.array([message.offset() for message in messages], pa.int64())
    count = len(messages)
    columns = {
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
        "headers": pa.array(pairs, schema.field("headers").type),
        "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
        "origin": pa.repeat(pa.scalar(messages[0].topic()), count),
        "partition": pa.repeat(pa.scalar(str(messages[0].partition())), count),
        "position": pc.utf8_lpad(offsets.cast(pa.string()), WIDTH, "0"),
    }
    arrays = [columns[field.name].cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(message: Any) -> list[tuple[str, bytes | None]]:
    """Return a message's headers; of those of one name the last counts, in its place."""
    found = message.headers() or []
    if len(found) < 2:
        return list(found)
    last = {name: index for index, (name, _) in enumerate(found)}
    return [pair for index, pair in enumerate(found) if last[pair[0]] == index]
