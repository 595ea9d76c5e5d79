"""Stores groups of messages in one receiver's folder, without those that are stored already."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from mainstem import failpoint
from mainstem.durable import sync_folder

from mainstem_ingress.dedup import Identities, hash_of, words_of
from mainstem_ingress.errors import LogError
from mainstem_ingress.log import Log, end_since, keep_cursor, kept_cursor, lock
from mainstem_ingress.losses import MARK
from mainstem_ingress.messages import Columns, Message, Rows, Values
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.segments import (
    ID,
    IDS_SUFFIX,
    REASON,
    SUFFIX,
    Header,
    as_batch,
    batch_of_columns,
    file_of,
    numbers,
    open_segment,
    read_header,
    remove_torn,
    schema_of,
    write,
)

T = TypeVar("T")


#: What comes of a value that is not of its column's type, or beyond its range.
_NOT_HELD = (ArithmeticError, AttributeError, TypeError, ValueError, pa.ArrowException)


@dataclass
class Counts:
    """What came of the messages that were taken, since the process began."""

    stored: int = 0
    duplicates: int = 0
    refused: int = 0

    @property
    def taken(self) -> int:
        """All of them."""
        return self.stored + self.duplicates + self.refused


class Store:
    """The writer of one receiver's folder; the caller holds that folder's lock.

    Args:
        log: where the folder is.
        number: the receiver.
        extra: the columns that the source adds.

    Raises:
        LogError: a segment that is needed can't be read.
    """

    def __init__(
        self, log: Log, number: int, options: IngressOptions, extra: Sequence[pa.Field[Any]] = ()
    ) -> None:
        self.log = log
        self.name = str(number)
        self.folder = log.receiver(number)
        self.counts = Counts()
        self._schema = schema_of(extra)
        self._horizon = options.duplicates_within.total_seconds()
        self._identities = Identities(self._horizon, options.duplicates_most)
        self._learned: dict[str, int] = {}
        remove_torn(self.folder)
        # What a process that was killed has renamed counts as stored from here on.
        sync_folder(self.folder)
        found = numbers(self.folder)
        self.next = found[-1] + 1 if found else 0
        self.cursor: str | None = None
        self.rows = self.bytes = 0
        if found:
            newest = file_of(self.folder, found[-1])
            header = open_segment(newest)[0]
            self.cursor = header.cursor
            self.rows = header.rows_before + header.rows
            self.bytes = header.bytes_before + newest.stat().st_size
        kept = kept_cursor(self.folder, self.next)
        self.cursor = self.cursor if kept is None else kept
        #: For how long nothing could come, in seconds: ids did not age meanwhile.
        self._away = 0.0
        if self._horizon:
            with lock(log.folder / "lock"):
                self._learn_all()

    def now(self) -> float:
        """Return the time by which ids age: that of the clock, without what `away` was told."""
        return time.time() - self._away

    def away(self, seconds: float) -> None:
        """Say that for so long nothing could come, so that no copy could either."""
        self._away += seconds

    def keep(self, cursor: str, *, complete: bool = True) -> None:
        """Store where the external system goes on, without messages; when this returns, it is there for
        good.

        Args:
            complete: see `Receiver.complete`.

        Raises:
            OSError: it could not be written.
        """
        failpoint("ingress.before-cursor")
        keep_cursor(self.folder, self.next, cursor, complete=complete)
        failpoint("ingress.after-cursor")
        self.cursor = cursor

    def store(
        self, messages: Sequence[Message], cursor: str | None = None, *, complete: bool = True
    ) -> None:
        """Store a group of messages; when this returns, it is there for good.

        Args:
            messages: at least one.
            cursor: where the external system goes on after all of them; stored with them. When left
                out, it is the last that one of them has.
            complete: see `Receiver.complete`.

        Raises:
            OSError: it could not be written; of a group too large for one segment a part may be stored,
            and is dropped by its ids when the group comes again.
            LogError: what another receiver has stored can't be read.
        """
        if (
            isinstance(messages, Values | Rows)
            or not self._horizon
            or all(message.id is None for message in messages)
        ):
            self._write(messages, None, cursor, complete=complete)
            return
        hashes = [None if m.id is None else hash_of(m.id) for m in messages]
        # Held until the segment is there: else another receiver could store the same message.
        with lock(self.log.folder / "lock"):
            self._learn()
            identified = [i for i, each in enumerate(hashes) if each is not None]
            words = words_of([each for each in hashes if each is not None])
            self._identities.forget(self.now())
            new = self._identities.new(words)
            dropped = {identified[i] for i in (~new).nonzero()[0]}
            kept = [m for i, m in enumerate(messages) if i not in dropped] if dropped else messages
            if dropped:
                self._sync_others()
            if kept:
                ids = [h for i, h in enumerate(hashes) if i not in dropped]
                # Of the last message, which may have been dropped.
                self._write(kept, ids, cursor, _cursor(messages), complete=complete)
            self.counts.duplicates += len(dropped)

    def _write(
        self,
        messages: Sequence[Message],
        ids: Sequence[bytes | None] | None,
        whole: str | None,
        last: str | None = None,
        *,
        complete: bool = True,
    ) -> None:
        """Write a segment, or several if one can't hold so many bytes.

        Args:
            whole: the cursor after all of the messages, for whoever has one.
            last: the last of the messages' own cursors, if messages behind it were left out.
        """
        try:
            batch = self._batch(messages, ids)
        except OverflowError as error:
            if len(messages) == 1:
                raise
            if whole is not None:  # a crash between two segments would store the first one twice
                raise LogError(
                    f"{len(messages):,} messages have one cursor and no room in one segment: give "
                    "less to `segment_bytes`"
                ) from error
            half = len(messages) // 2
            self._write(messages[:half], ids and ids[:half], None, complete=False)
            self._write(messages[half:], ids and ids[half:], None, last, complete=complete)
            return
        cursor = next((c for c in (whole, last, _cursor(messages)) if c is not None), None)
        header = Header(
            number=self.next,
            rows=len(messages),
            rows_before=self.rows,
            bytes_before=self.bytes,
            created=time.time(),
            cursor=self.cursor if cursor is None else cursor,
            complete=complete,
        )
        self.bytes += write(self.folder, header, batch)
        if ids is not None and (known := [each for each in ids if each is not None]):
            self._identities.add(words_of(known), self.now())
        self.rows += len(messages)
        self.cursor = header.cursor
        self.next += 1
        refused = len(messages) - batch.column(REASON).null_count
        if refused:
            refused -= sum((each.refused or "").startswith(MARK) for each in messages)
        self.counts.refused += refused
        self.counts.stored += len(messages) - refused

    def _sync_others(self) -> None:
        """See to it that what other receivers have stored is there for good, also if they are gone."""
        for name in self.log.receivers():
            if name != self.name:
                sync_folder(self.log.receiver(name))

    def _batch(
        self, messages: Sequence[Message], ids: Sequence[bytes | None] | None
    ) -> pa.RecordBatch:
        """Return messages as a batch; those that no column can hold are refused."""
        if isinstance(messages, Rows):
            made = [
                batch_of_columns(part, self._schema)
                if isinstance(part, Columns)
                else self._batch(part, None)
                for part in messages.parts
            ]
            batches: list[pa.RecordBatch] = (
                pa.Table.from_batches(made).combine_chunks().to_batches()
            )
            if len(batches) > 1:
                raise OverflowError("too many bytes for one segment")
            return batches[0]
        try:
            return as_batch(messages, ids, self._schema)
        except _NOT_HELD:
            return as_batch([self._held(message) for message in messages], ids, self._schema)

    def _held(self, message: Message) -> Message:
        try:
            as_batch([message], None, self._schema)
        except _NOT_HELD as error:
            return Message(
                message.value if isinstance(message.value, bytes) else None,
                refused=f"it can't be stored: {type(error).__name__}: {error}",
            )
        return message

    # -- the ids of what is stored already --------------------------------------------------

    def _learn_all(self) -> None:
        """Learn the ids of all folders, the oldest first: of too many it is these that are forgotten.

        Nobody took anything for this folder since its newest segment: ids did not age meanwhile.
        """
        known = {name: _either(self.log.receiver(name)) for name in self.log.receivers()}
        newest = {name: self._created(name, some[-1]) for name, some in known.items() if some}
        last = newest.get(self.name) or max(newest.values(), default=time.time())
        self._away = max(0.0, time.time() - last)
        since = self.now() - self._horizon
        found = []
        for name, some in known.items():
            self._learned[name] = max(some, default=-1) + 1
            for number in reversed(some):
                created = self._created(name, number)
                if 0.0 < created < since:
                    break
                found.append((created, name, number))
        for _, name, number in sorted(found):
            self._learn_from(self.log.receiver(name), number)

    def _created(self, name: str, number: int) -> float:
        """Return when a segment was stored; 0 if it was removed meanwhile, and its ids with it."""
        header = _of_either(read_header, self.log.receiver(name), number)
        return header.created if header is not None else 0.0

    def _learn(self) -> None:
        """Learn the ids that other receivers have stored since the last time."""
        for name in self.log.receivers():
            if name == self.name:
                continue
            folder = self.log.receiver(name)
            first = self._learned.get(name, 0)
            end = end_since(folder, first)
            # Of those that were removed meanwhile, what is left are ids, or nothing.
            files = range(first, end) if end else [n for n in _either(folder) if n >= first]
            self._learned[name] = max(files, default=first - 1) + 1
            for number in files:
                self._learn_from(folder, number)

    def _learn_from(self, folder: Path, number: int) -> None:
        found = _of_either(open_segment, folder, number)
        if found is None:
            return
        header, batch = found
        hashes = [each for each in batch.column(ID).to_pylist() if each is not None]
        if hashes:
            words = words_of(hashes)
            self._identities.add(
                words[self._identities.new(words)], min(header.created, self.now())
            )


def _cursor(messages: Sequence[Message]) -> str | None:
    if isinstance(messages, Values):
        return messages.cursor
    if isinstance(messages, Rows):
        return None
    return next((m.cursor for m in reversed(messages) if m.cursor is not None), None)


def _either(folder: Path) -> list[int]:
    """Return the numbers of the segments that are there, or their ids, in order."""
    return sorted({*numbers(folder), *numbers(folder, IDS_SUFFIX)})


def _of_either(read: Callable[[Path], T], folder: Path, number: int) -> T | None:
    """Return what is read of a segment, or of its ids; None if both were removed meanwhile."""
    for suffix in (SUFFIX, IDS_SUFFIX):
        file = file_of(folder, number, suffix)
        try:
            return read(file)
        except LogError:
            if file.exists():
                raise
    return None
