"""Finds messages in a log: by the id that the external system gave them, by their place, by their key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from mainstem import Trace

from mainstem_ingress.dedup import hash_of
from mainstem_ingress.errors import LogError
from mainstem_ingress.losses import MARK
from mainstem_ingress.segments import (
    ID,
    IDS_SUFFIX,
    REASON,
    SUFFIX,
    Header,
    file_of,
    numbers,
    open_segment,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem_ingress.log import Log

#: The place that the log itself gives a row: receiver, segment, row.
_OWN = re.compile(r"(\d+)/(\d{12})\.(\d{8})")


@dataclass(frozen=True)
class Stored(Trace):
    """A message of a log, and the segment that has it."""

    receiver: str = ""
    number: int = 0


def segment_of(trace: Trace) -> tuple[str, int]:
    """Return the receiver and the number of the segment that has a message."""
    assert isinstance(trace, Stored)  # noqa: S101
    return trace.receiver, trace.number


def traces(log: Log, message: str, key: str) -> Iterator[Trace]:
    """Yield the messages with an id or at a place, or those with a key.

    Raises:
        LogError: a segment is damaged.
    """
    wanted = hash_of(message.encode()) if message else None
    for receiver in log.receivers():
        folder = log.receiver(receiver)
        there = [(number, SUFFIX) for number in numbers(folder, SUFFIX)]
        if wanted is not None:
            there += [(number, IDS_SUFFIX) for number in numbers(folder, IDS_SUFFIX)]
        for number, suffix in sorted(there):
            file = file_of(folder, number, suffix)
            try:
                header, rows = open_segment(file)
            except LogError:
                if file.exists():
                    raise
                continue  # all have read it meanwhile
            for index in _among(rows, receiver, number, message, key, wanted):
                yield _stored(header, rows, receiver, number, index)


def _among(
    rows: pa.RecordBatch, receiver: str, number: int, message: str, key: str, wanted: bytes | None
) -> Iterator[int]:
    """Yield which rows of a segment are asked for."""
    if wanted is None:
        yield from _equal(rows.column("key"), key.encode())
        return
    found = set(_equal(rows.column(ID), wanted))
    if (own := _OWN.fullmatch(message)) and own[1] == receiver and int(own[2]) == number:
        found |= {int(own[3])} if int(own[3]) < rows.num_rows else set()
    partition, _, position = message.rpartition("/")
    if "position" in rows.schema.names:
        at = set(_equal(rows.column("position"), position))
        found |= at & set(_equal(rows.column("partition"), partition))
    yield from sorted(found)


def _equal(column: Any, value: bytes | str) -> list[int]:
    if column.null_count == len(column):
        return []
    import pyarrow as pa

    same: Any = pc.equal(column, pa.scalar(value, column.type))
    found: list[int] = pc.indices_nonzero(pc.fill_null(same, pa.scalar(False))).to_pylist()
    return found


def _stored(header: Header, rows: pa.RecordBatch, receiver: str, number: int, index: int) -> Stored:
    at = datetime.fromtimestamp(header.created, UTC)
    if "value" not in rows.schema.names:
        where = f"receiver {receiver}, removed, for all have read it: up to segment {number}"
        return Stored({}, where, at, receiver=receiver, number=number)
    row = rows.slice(index, 1).to_pylist()[0]
    reason = row[REASON] or ""
    return Stored(
        {
            "origin": row["origin"] or "",
            "partition": row.get("partition") or receiver,
            "position": row.get("position") or f"{number:012d}.{index:08d}",
        },
        f"receiver {receiver}, segment {number}, row {index}",
        at,
        "" if reason.startswith(MARK) else reason,
        row["value"],
        receiver,
        number,
    )
