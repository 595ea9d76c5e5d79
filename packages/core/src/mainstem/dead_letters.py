"""Rows that a document refused, as sinks have stored them, and the log by which they come again.

Never imports pyspark.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.columns import arrow_type
from mainstem.contracts.abilities import Readable
from mainstem.contracts.shapes import MESSAGE_COLUMNS, REJECTED
from mainstem.crashpoints import failpoint
from mainstem.durable import made_folder, sync_file, sync_folder
from mainstem.errors import PipelineError
from mainstem.plan.model import Plan, SinkNode

#: The folder of a `redrive`'s messages in its node's, and the header that holds a letter's id.
MESSAGES, LETTER = "messages", "mainstem-letter"
_SCHEMA = pa.schema([(column.name, arrow_type(column.type or "")) for column in MESSAGE_COLUMNS])


@dataclass(frozen=True)
class Letter:
    """A refused row.

    Attributes:
        id: what tells it from others, the same wherever it is stored.
        node: which refused it, why, and when.
        payload: what it holds.
    """

    id: str
    sink: str
    node: str
    reason: str
    at: datetime | None
    payload: bytes


def letter_sinks(plan: Plan, only: Sequence[str] = ()) -> list[str]:
    """Return the sinks that store refused rows and can give them back.

    Raises:
        PipelineError: one that is named does not; or there is none.
    """
    found = [
        name
        for name, node in plan.written.items()
        if isinstance(node, SinkNode)
        and isinstance(node.sink, Readable)
        and all(stream.output == "rejected" for stream in node.streams)
    ]
    if unknown := [name for name in only if name not in found]:
        there = ", ".join(found) or "none"
        raise PipelineError(
            f"{unknown[0]} stores no refused rows that can be read. There are: {there}."
        )
    if not found:
        raise PipelineError(
            "no sink stores refused rows: write `from: NODE.rejected` to a sink `files` or `sql`"
        )
    return list(only) or found


def letters(plan: Plan, sinks: Sequence[str]) -> Iterator[Letter]:
    """Yield the refused rows that sinks have stored."""
    for name in sinks:
        node = plan.written[name]
        assert isinstance(node, SinkNode)  # noqa: S101
        assert isinstance(node.sink, Readable)  # noqa: S101
        alike: Counter[bytes] = Counter()
        for row in node.sink.read(REJECTED.columns):
            yield _letter(name, row, alike)


def _letter(sink: str, row: Mapping[str, Any], alike: Counter[bytes]) -> Letter:
    payload, at = bytes(row.get("payload") or b""), row.get("at")
    if at is not None and at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    node, identity = str(row.get("node") or ""), bytes(row.get("_id") or b"")
    # Neither the time, which each sink has put there, nor the reason, which has other words some day.
    told = b"\0".join((node.encode(), identity or payload))
    if not identity:
        alike[told] += 1
        told += b"\0%d" % alike[told]
    found = hashlib.sha256(told).hexdigest()[:16]
    return Letter(found, sink, node, str(row.get("reason") or ""), at, payload)


class RedriveLog:
    """What was sent through the document again, by a source `redrive`.

    Args:
        home: the source's durable folder.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / MESSAGES

    def known(self) -> set[str]:
        """Return the ids of letters that were sent."""
        found: set[str] = set()
        for file in self._files():
            column: Any = pq.read_table(file, columns=["headers"]).column(0)
            for headers in column.to_pylist():
                found |= {value.decode() for name, value in headers if name == LETTER}
        return found

    def add(self, found: Sequence[Letter], *, again: bool = False) -> int:
        """Send letters that were not sent yet: as one file, which is there whole or not at all.

        Args:
            again: those too that were.

        Returns:
            How many were sent.
        """
        made_folder(self._folder)
        with (self._folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = set() if again else self.known()
            fresh = [each for each in found if each.id not in known]
            if fresh:
                self._write(fresh)
        return len(fresh)

    def _write(self, found: Sequence[Letter]) -> None:
        files = self._files()
        start = int(files[-1].stem) + pq.read_metadata(files[-1]).num_rows if files else 0
        rows = [
            {
                "key": None, "value": each.payload, "headers": [(LETTER, each.id.encode())],
                "timestamp": each.at, "origin": each.node, "partition": "0",
                "position": f"{number:020d}",
            }
            for number, each in enumerate(found, start)
        ]  # fmt: skip
        hidden = self._folder / f".{start:020d}.parquet.new"
        pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), hidden)
        sync_file(hidden)
        failpoint("redrive.before-rename")
        hidden.rename(self._folder / f"{start:020d}.parquet")
        failpoint("redrive.after-rename")
        sync_folder(self._folder)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.parquet"))
