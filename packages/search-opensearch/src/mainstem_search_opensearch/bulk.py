"""Writes documents by bulk requests, of which each has an answer of its own."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mainstem import FencedError, PermanentError, TransientError, failpoint
from mainstem.changes import ChangeTarget
from mainstem.patience import Patience
from mainstem.sinks import Refused

from mainstem_search_opensearch.connection import (
    ConflictError,
    Connection,
    LargeError,
    is_about_a_document,
    passing,
    reason_of,
)
from mainstem_search_opensearch.options import OpenSearchOptions

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of what tasks are given: the bulk request's line, the document's, why it can't be sent.
ACTION, DOCUMENT, WRONG = "action", "document", "wrong"
#: The index that has, by checkpoint and sink, the highest run that has written.
RUNS = "mainstem-runs"
_CONFLICT, _NOT_FOUND = 409, 404
#: What the node says of a version that is there.
_HIGHER = re.compile(r"current version \[(\d+)\] is higher")
#: What else an answer has is not needed.
_ASKED = "errors,items.*.status,items.*.error"


class Line(NamedTuple):
    """A document to be written.

    Attributes:
        action: the line before it.
        document: as JSON; None for a deletion.
        identity: its row's `_id`.
    """

    action: str
    document: str | None
    identity: bytes | None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.action) + len(self.document or "") + 2


class Bulk(ChangeTarget):
    """Writes documents over one connection.

    Args:
        ledger: the name under which the highest run of the checkpoint is kept; `run` is this one.
        over: whether a document is written over a later version, with that version.
    """

    def __init__(
        self, options: OpenSearchOptions, ledger: str, run: int, *, over: bool = False
    ) -> None:
        self._options, self._ledger, self._run = options, ledger, run
        self._over = over
        self._connection: Connection | None = None
        #: Whether it is noted, for the call in hand, that this run writes.
        self._entered = False
        #: Why the node could not take a document last.
        self._why = ""

    def write(self, sets: pa.Table, deletes: pa.Table, refused: Refused) -> None:
        lines = [*_lines(deletes, refused), *_lines(sets, refused)]
        self.send(lines, refused)

    def send(self, lines: Sequence[Line], refused: Refused) -> None:
        """Write documents; those that the node never will go to `refused`.

        Raises:
            TransientError, PermanentError: they could not be written.
            FencedError: a higher run has written.
        """
        self._entered = False
        for part in self._parts(lines):
            self._send(part, refused)

    def _send(self, left: list[Line], refused: Refused) -> None:
        """Write documents, again what the node can't take now, for as long as it takes some."""
        patience = Patience(self._options.give_up.total_seconds())
        while left:
            before = len(left)
            wrong: list[tuple[Line, str]] = []
            try:
                left = self._sent(left, wrong)
            except TransientError as error:
                self.close()
                failure = error
            else:
                for line, why in wrong:
                    _refuse(line, why, refused)
                failure = TransientError(f"{len(left)} documents can't be taken now: {self._why}")
            if len(left) < before:
                patience.progress()
            if left:
                wait = patience.pause()
                if patience.left() <= 0:
                    raise failure
                time.sleep(wait)

    def _parts(self, lines: Sequence[Line]) -> Iterator[list[Line]]:
        """Cut documents into requests."""
        part: list[Line] = []
        size = 0
        for line in lines:
            full = (
                len(part) >= self._options.bulk_rows or size + line.size > self._options.bulk_bytes
            )
            if part and full:
                yield part
                part, size = [], 0
            part.append(line)
            size += line.size
        if part:
            yield part

    def _sent(self, lines: list[Line], wrong: list[tuple[Line, str]]) -> list[Line]:
        """Write documents by one request; return those that the node can't take now."""
        texts = []
        for line in lines:
            texts.append(line.action)
            if line.document is not None:
                texts.append(line.document)
        body = "\n".join(texts) + "\n"
        refresh = "true" if self._options.refresh else "false"
        try:
            failpoint("opensearch.before-bulk")
            found = self._connected().ask(
                "POST", "/_bulk", body.encode(), filter_path=_ASKED, refresh=refresh
            )
            failpoint("opensearch.after-bulk")
        except LargeError as error:
            if len(lines) == 1:
                wrong.append((lines[0], str(error)))
                return []
            half = len(lines) // 2
            return [*self._sent(lines[:half], wrong), *self._sent(lines[half:], wrong)]
        return self._later(lines, found, wrong) if found.get("errors") else []

    def _later(
        self, lines: Sequence[Line], found: Any, wrong: list[tuple[Line, str]]
    ) -> list[Line]:
        """Return the documents that can be taken later, and add those that never can.

        Raises:
            PermanentError: what is wrong is not the document.
        """
        later = []
        for line, item in zip(lines, found["items"], strict=True):
            (answer,) = item.values()
            status, error = answer["status"], answer.get("error")
            if error is None:
                continue
            why = reason_of(error)
            if status == _CONFLICT:  # what is there is as new, or newer
                if self._over and (higher := _HIGHER.search(why)):
                    later.append(_with_version(line, int(higher[1])))
                    self._why = why
                continue
            if passing(status, why):
                later.append(line)
                self._why = why
            elif is_about_a_document(status, error):
                wrong.append((line, why))
            else:
                hint = ": make the index, or let it be made" if status == _NOT_FOUND else ""
                raise PermanentError(f"{why}{hint}")
        return later

    def _connected(self) -> Connection:
        """Return the connection, over which it is noted that this run writes.

        Raises:
            FencedError: a higher one has.
        """
        if self._connection is None:
            self._connection = Connection(self._options)
        if not self._entered:
            given = {"version": self._run + 1, "version_type": "external_gte"}
            try:
                self._connection.ask(
                    "PUT", f"/{RUNS}/_doc/{self._ledger}", {"run": self._run}, **given
                )
            except ConflictError:
                raise FencedError("a later run of the checkpoint has replaced this one") from None
            self._entered = True
        return self._connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _lines(rows: pa.Table, refused: Refused) -> Iterator[Line]:
    names = rows.column_names
    ids = rows.column("_id").to_pylist() if "_id" in names else [None] * rows.num_rows
    columns = (rows.column(name).to_pylist() for name in (ACTION, DOCUMENT, WRONG))
    for action, document, wrong, identity in zip(*columns, ids, strict=True):
        line = Line(action, document, identity)
        if wrong is not None:
            _refuse(line, wrong, refused)
        else:
            yield line


def lines_of(batch: Any, refused: Refused) -> Iterator[Line]:
    """Yield the documents of rows in the columns that tasks are given; others are refused."""
    import pyarrow as pa

    return _lines(pa.Table.from_batches([batch]), refused)


def _refuse(line: Line, why: str, refused: Refused) -> None:
    payload = line.document if line.document is not None else line.action
    refused.add(line.identity, payload.encode(), why)


def _with_version(line: Line, version: int) -> Line:
    """Return a document that is written with another version."""
    action = json.loads(line.action)
    for given in action.values():
        given["version"] = version
    return line._replace(action=json.dumps(action))


def ledger_name(*parts: str) -> str:
    """Return a name for the ledger, of characters that stand in a path as they are."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]
