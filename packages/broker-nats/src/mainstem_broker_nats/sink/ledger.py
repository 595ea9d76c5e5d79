"""Notes which run of a checkpoint writes, in a key-value bucket, so that one that was replaced is told.

The ledger holds no rows: what a stream has is known by the ids of its messages alone. For each stream,
sink and checkpoint it has one entry, `{"epoch": 3, "batch": 17, "at": ...}`, set only over the revision
that was read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from mainstem import Batch, TransientError
from mainstem.sinks import ledger_step

from mainstem_broker_nats.connection import APIError, api_error

if TYPE_CHECKING:
    from mainstem_broker_nats.client import Connection

_WRONG_SEQUENCE = {10071, 10164}
_OTHERWISE_THERE = 10058
_TRIES = 20


@dataclass(frozen=True)
class Entry:
    """What is noted of a checkpoint: the newest run, its batch, and when that was first written."""

    epoch: int
    batch: int
    at: datetime
    revision: int


class Ledger:
    """The bucket.

    Args:
        connection: to the server.
        bucket: its name.
        stream: what is written to.
        replicas: on how many servers it is kept, if it must be made.
    """

    def __init__(self, connection: Connection, bucket: str, stream: str, replicas: int = 1) -> None:
        self._connection = connection
        self._bucket = bucket
        self._stream = stream
        self._replicas = replicas

    def enter(self, batch: Batch) -> timedelta | None:
        """Note that a batch is written by its run, unless a newer run has been.

        Returns:
            How long ago the same batch was noted first, by the server's clock; None if it was not.

        Raises:
            FencedError: a run of a higher epoch has written.
            ExternalError: the server does not answer, or forbids it.
        """
        key = f"{self._stream}.{batch.sink}.{batch.query_id}"
        for _ in range(_TRIES):
            entry, now = self._read(key)
            if entry is not None:
                ledger_step(batch, last=entry.batch, epoch=entry.epoch, once=False)
            again = entry is not None and entry.batch == batch.id
            since = now - entry.at if entry is not None and again else None
            if entry is not None and again and entry.epoch == batch.epoch:
                return since
            first = entry.at if entry is not None and again else now
            text = json.dumps({"epoch": batch.epoch, "batch": batch.id, "at": first.isoformat()})
            if self._write(key, text, entry.revision if entry is not None else 0):
                return since
        raise TransientError(f"bucket {self._bucket}: others keep on changing {key}")

    def _read(self, key: str) -> tuple[Entry | None, datetime]:
        """Return the entry, and the server's time."""
        info = self._info()
        now = _time(info["ts"]) if "ts" in info else datetime.now(UTC)
        try:
            found = self._connection.ask(
                f"STREAM.MSG.GET.KV_{self._bucket}", {"last_by_subj": self._subject(key)}
            )["message"]
        except APIError as error:
            if error.code == 404:
                return None, now
            raise
        # An entry that somebody has deleted is there as a message without a value.
        text = base64.b64decode(found.get("data") or "")
        kept = json.loads(text) if text else {"epoch": 0, "batch": -1, "at": found["time"]}
        at = _time(kept["at"])
        return Entry(kept["epoch"], kept["batch"], at, int(found["seq"])), now

    def _info(self) -> Mapping[str, Any]:
        name = f"KV_{self._bucket}"
        try:
            return self._connection.ask(f"STREAM.INFO.{name}")
        except APIError as error:
            if error.code != 404:
                raise
        # As every client of NATS makes a bucket, so that each can read it.
        config = {
            "name": name,
            "subjects": [self._subject(">")],
            "max_msgs_per_subject": 1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_consumers": -1,
            "discard": "new",
            "retention": "limits",
            "storage": "file",
            "num_replicas": self._replicas,
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "allow_direct": True,
        }
        try:
            return self._connection.ask(f"STREAM.CREATE.{name}", config)
        except APIError as error:
            if error.err_code != _OTHERWISE_THERE:
                raise
        return self._connection.ask(f"STREAM.INFO.{name}")  # another sink was faster

    def _write(self, key: str, text: str, revision: int) -> bool:
        """Set an entry over a revision; whether that was still the last one."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        answer = self._connection.request(self._subject(key), text.encode(), headers)
        error = json.loads(answer.data or b"{}").get("error")
        if error and error.get("err_code") in _WRONG_SEQUENCE:
            return False
        if error:
            text = f"bucket {self._bucket}: {error.get('description')}"
            raise api_error(text, error.get("code", 0), error.get("err_code", 0))
        return True

    def _subject(self, key: str) -> str:
        return f"$KV.{self._bucket}.{key}"


def _time(text: str) -> datetime:
    """Read a time of the server's, which has nanoseconds."""
    found = datetime.fromisoformat(text[:26].rstrip("Z") if "." in text else text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
