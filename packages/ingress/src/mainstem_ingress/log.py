"""The folder of a log: who writes what, and who has read how far.

- `receivers/NUMBER/`: the segments of one receiver; `lock`, held by the process that writes there; and
  `cursor.json`, where the external system goes on if that changed after the newest segment
- `consumers/NAME.json`: `{receiver: the first segment not read yet}`, of each query that reads the log
- `consumers/lock`: held while a consumer comes in, and while segments are removed
- `lock`: held from the look whether ids are new until the segment that has them is there

A log's position in a receiver's folder is the number of the first segment beyond it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

from mainstem.durable import made_folder, read_whole, sync_folder, write_whole

from mainstem_ingress.errors import LogError
from mainstem_ingress.segments import (
    IDS_SUFFIX,
    SUFFIX,
    Header,
    file_of,
    numbers,
    open_segment,
    read_header,
)

#: Receiver to the number of its first segment beyond; receivers are numbers written as text.
Offsets = Mapping[str, int]

_CURSOR = "cursor.json"


class Log:
    """A log, for whoever reads it.

    Args:
        folder: made by the first receiver.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.consumers = Consumers(folder / "consumers")

    def receiver(self, number: int | str) -> Path:
        """Return the folder of a receiver's segments."""
        return self.folder / "receivers" / str(number)

    def receivers(self) -> list[str]:
        """Return the receivers that have ever stored here, in order."""
        try:
            names = os.listdir(self.folder / "receivers")  # noqa: PTH208  # polled
        except FileNotFoundError:
            return []
        return sorted(filter(str.isdecimal, names), key=int)

    def earliest(self, receiver: str) -> int:
        """Return the number of the first segment from which all are there."""
        return whole_run(self.receiver(receiver))[0]

    def end(self, receiver: str, since: int = 0) -> int:
        """Return the number after a receiver's newest segment, knowing one not beyond it."""
        folder = self.receiver(receiver)
        end = end_since(folder, since)
        return whole_run(folder)[1] if end is None else end

    def ends(self) -> dict[str, int]:
        """Return the end of every receiver's segments."""
        return {receiver: self.end(receiver) for receiver in self.receivers()}

    def header(self, receiver: str, number: int) -> Header:
        """Return the header of a segment.

        Raises:
            LogError: it is gone, damaged or of another version.
        """
        return read_header(file_of(self.receiver(receiver), number))

    def cursors(self) -> dict[int, str]:
        """Return the cursor of each receiver that has one, as it will be found after any crash.

        Raises:
            LogError: what is there can't be read.
        """
        found = {}
        for name in self.receivers():
            folder = self.receiver(name)
            # What was renamed by a process that was killed may not be there for good yet.
            sync_folder(folder)
            cursor = self._cursor(name, folder)
            if cursor is not None:
                found[int(name)] = cursor
        return found

    def _cursor(self, name: str, folder: Path) -> str | None:
        """Return a receiver's cursor, though it goes on writing meanwhile."""
        end = self.end(name)
        while True:
            kept = kept_cursor(folder, end)
            if kept is not None:
                return kept
            if not end:
                return None
            try:
                cursor = self.header(name, end - 1).cursor
            except LogError:
                if file_of(folder, end - 1).exists():
                    raise
            else:
                if not file_of(folder, end).exists():
                    return cursor
            end = self.end(name)

    def checks(self) -> Iterator[Callable[[], object]]:
        """Yield for each file of the log what reads it whole, and raises LogError if it is damaged."""
        for name in self.receivers():
            folder = self.receiver(name)
            for suffix in (SUFFIX, IDS_SUFFIX):
                for number in numbers(folder, suffix):
                    yield partial(_check, file_of(folder, number, suffix))
            yield partial(kept_cursor, folder, -1)
        yield self.consumers.all

    def hold(self, consumer: str) -> None:
        """Keep what there is for a consumer that will begin to read, unless it is known already."""
        with self.consumers.locked():
            if not self.consumers.file(consumer).exists():
                first = {name: self.earliest(name) for name in self.receivers()}
                self.consumers.put(consumer, first)

    def unread(self, receiver: str, since: int) -> tuple[int, float]:
        """Return how many rows are there from a segment on, and when the oldest was stored."""
        end = self.end(receiver, since)
        if end <= since:
            return 0, 0.0
        first, last = self.header(receiver, since), self.header(receiver, end - 1)
        return last.rows_before + last.rows - first.rows_before, first.created


def _check(file: Path) -> None:
    """Read a segment whole; one that was removed meanwhile, for all have read it, is none."""
    try:
        open_segment(file)
    except LogError:
        if file.exists():
            raise


def keep_cursor(folder: Path, end: int, cursor: str, *, complete: bool = True) -> None:
    """Keep where the external system goes on after the segments before `end`, for good."""
    told = {"end": end, "cursor": cursor, "complete": complete}
    write_whole(folder / _CURSOR, json.dumps(told))


def kept_cursor(folder: Path, end: int) -> str | None:
    """Return what was kept after the segments before `end`; None if nothing, or something older.

    Raises:
        LogError: it can't be read.
    """
    found = _kept(folder, end)
    return None if found is None else str(found["cursor"])


def ends_complete(folder: Path, end: int) -> bool:
    """Whether what belongs together is whole in the segments before `end`.

    Raises:
        LogError: a file can't be read.
    """
    found = _kept(folder, end)
    if found is not None and found["complete"]:
        return True
    return not end or read_header(file_of(folder, end - 1)).complete


def _kept(folder: Path, end: int) -> dict[str, Any] | None:
    file = folder / _CURSOR
    try:
        found: dict[str, Any] = json.loads(read_whole(file))
        there = {"cursor": found["cursor"], "complete": found["complete"]}
        return there if found["end"] == end else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LogError(f"{file} can't be read: {error}") from None


def end_since(folder: Path, number: int) -> int | None:
    """Return the end of the segments without a look at all, from one that was the end at some time.

    None if that can't be told: the newest segment stays and what is removed are the oldest, so that
    one is missing with the one before it only where more have come and gone.
    """
    while file_of(folder, number).exists():
        number += 1
    return number if number and file_of(folder, number - 1).exists() else None


def whole_run(folder: Path) -> tuple[int, int]:
    """Return the first and the end of the unbroken run of segments in a folder that ends with the newest.

    A listing is no snapshot: it can have a segment without the one written just before it. So the
    files themselves are asked whether there is a gap.
    """
    try:
        first, end = run_of(numbers(folder))
    except FileNotFoundError:
        return 0, 0
    while first and file_of(folder, first - 1).exists():
        first -= 1
    return first, end


def run_of(found: list[int]) -> tuple[int, int]:
    """Return the first and the end of the unbroken run of numbers that ends with the newest.

    After a power failure, files whose removal had not reached the disk can be back.
    """
    if not found:
        return 0, 0
    first = found[-1]
    for number in reversed(found[:-1]):
        if number != first - 1:
            break
        first = number
    return first, found[-1] + 1


class Consumers:
    """The queries that read a log, and how far each has read.

    Args:
        folder: made when the first one comes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no segment be removed, and no consumer come in, meanwhile."""
        with lock(made_folder(self.folder) / "lock"):
            yield

    def file(self, name: str) -> Path:
        """Return where a consumer's progress is kept."""
        return self.folder / f"{quote(name, safe='')}.json"

    def put(self, name: str, offsets: Offsets) -> None:
        """Say that a consumer has read up to some offsets; readers of the file see it whole."""
        # An empty file after a power failure would stop all receivers.
        write_whole(self.file(name), json.dumps(dict(offsets)))

    def forget(self, name: str) -> bool:
        """Let a consumer hold nothing any more; whether it was known."""
        file = self.file(name)
        if not file.exists():
            return False
        with self.locked():
            file.unlink(missing_ok=True)
        return True

    def all(self) -> dict[str, Offsets]:
        """Return every consumer's offsets.

        Raises:
            LogError: a file can't be read.
        """
        found: dict[str, Offsets] = {}
        for file in sorted(self.folder.glob("*.json")):
            try:
                found[unquote(file.stem)] = json.loads(read_whole(file))
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                raise LogError(f"{file} can't be read: {error}") from None
        return found

    def floor(self, receiver: str) -> int:
        """Return the first segment that a consumer still wants; 0 while there is no consumer."""
        return min((offsets.get(receiver, 0) for offsets in self.all().values()), default=0)


@contextmanager
def lock(file: Path) -> Iterator[None]:
    """Hold a lock, waiting for it; it is gone with the process, however that ends."""
    with file.open("a") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def take_lock(file: Path) -> IO[str] | None:
    """Return a file whose lock is held until it is closed, or None if somebody else holds it."""
    opened = file.open("a")
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        opened.close()
        return None
    return opened
