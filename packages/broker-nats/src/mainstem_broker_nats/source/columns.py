"""Turns messages into Arrow record batches: rows of messages, or changes of a bucket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from mainstem import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION

from mainstem_broker_nats.source.headers import pairs, value
from mainstem_broker_nats.source.ranges import Messages

#: A sequence has 64 bits: so many digits.
WIDTH = 20

Build = Callable[[Messages, str, pa.Schema], pa.RecordBatch]

_OPERATION, _MARKER = b"KV-Operation", b"Nats-Marker-Reason"
_WHY_GONE = {b"MaxAge": "expire", b"Purge": "purge", b"Remove": "delete"}


def message_rows(chunk: Messages, stream: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return messages as rows.

    Args:
        chunk: the messages.
        stream: the stream's name.
        schema: of the source's columns, as Spark has it in Arrow.
    """
    subjects = [raw.subject for raw in chunk.messages]
    values = [raw.data for raw in chunk.messages]
    numbers = pa.array(chunk.sequences, pa.uint64()).cast(pa.string())
    columns: dict[str, Any] = {
        "key": pa.array(subjects, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": _headers(chunk, schema.field("headers").type),
        "timestamp": _times(chunk.times),
        "origin": _text(subjects),
        "partition": pa.repeat(pa.scalar(stream), len(chunk.messages)),
        "position": pc.utf8_lpad(numbers, WIDTH, "0"),
    }
    return _batch(columns, schema)


def change_rows(chunk: Messages, _: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return revisions of a bucket's keys as changes."""
    keys, values, operations = [], [], []
    for raw in chunk.messages:
        operation = _operation(raw.headers)
        keys.append(raw.subject.split(b".", 2)[2])  # without `$KV.bucket.`
        values.append(raw.data if operation == "put" else None)
        operations.append(operation)
    kinds = ["update_postimage" if each == "put" else "delete" for each in operations]
    revisions = pa.array(chunk.sequences, pa.int64())
    times = _times(chunk.times)
    columns = {
        "key": _text(keys),
        "value": pa.array(values, pa.binary()),
        "revision": revisions,
        "created": times,
        "operation": pa.array(operations, pa.string()),
        CHANGE_TYPE: pa.array(kinds, pa.string()),
        COMMIT_VERSION: revisions,
        COMMIT_TIMESTAMP: times,
    }
    return _batch(columns, schema)


def _operation(headers: bytes | None) -> str:
    """Return what a revision does: put, delete or purge; expire where the server removed the key."""
    if headers is None:
        return "put"
    told = value(headers, _OPERATION)
    if told in (b"DEL", b"PURGE"):
        return "delete" if told == b"DEL" else "purge"
    marked = value(headers, _MARKER)
    return _WHY_GONE.get(marked, "delete") if marked is not None else "put"


def _headers(chunk: Messages, kind: Any) -> Any:
    if all(raw.headers is None for raw in chunk.messages):
        return pa.nulls(len(chunk.messages), kind)
    found = [pairs(raw.headers) if raw.headers is not None else None for raw in chunk.messages]
    return pa.array(found, kind)


def _text(words: Sequence[bytes]) -> Any:
    """Return subjects as text: NATS takes any bytes, and what is no UTF-8 becomes U+FFFD."""
    try:
        return pa.array(words, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([word.decode("utf-8", "replace") for word in words], pa.string())


def _times(times: Sequence[int]) -> Any:
    return pa.array([at // 1000 for at in times], pa.timestamp("us", "UTC"))


def _batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        array = columns[field.name]
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
