"""Removes segments that nobody wants any more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from mainstem_ingress.log import Log, whole_run
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.segments import (
    ID,
    IDS_SUFFIX,
    Header,
    file_of,
    numbers,
    open_segment,
    read_header,
    write,
)

#: How many segments are removed at once, and for how long one call goes on, in seconds: the thread that
#: calls has messages to take.
_TOGETHER, _PATIENCE = 100, 0.05


class Retention:
    """Keeps one receiver's folder as small as its readers allow; the caller holds its lock.

    The newest segment always stays: it tells where the numbers and the external system go on.
    """

    def __init__(self, log: Log, receiver: str, options: IngressOptions) -> None:
        self._log = log
        self._receiver = receiver
        self._folder = log.receiver(receiver)
        self._horizon = options.duplicates_within.total_seconds()
        self._age = options.keep.total_seconds() if isinstance(options.keep, timedelta) else None
        self._size = options.keep // options.receivers if isinstance(options.keep, int) else None
        self.first = whole_run(self._folder)[0]
        self._ids = numbers(self._folder, IDS_SUFFIX)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Let the ids that are there age from now on: before, nobody could take."""
        self._began = time.time()

    def tidy(self, end: int, size: int) -> bool:
        """Remove what every consumer has read, and `keep` does not hold; whether that was all.

        Args:
            end: the number after the newest segment.
            size: the bytes of all segments that were ever written.
        """
        until = time.monotonic() + _PATIENCE
        while run := self._spared(end, size):
            with self._log.consumers.locked():
                if run := self._spared(end, size):
                    self._remove(run)
            if time.monotonic() > until:
                return False
        while self._ids:
            file = file_of(self._folder, self._ids[0], IDS_SUFFIX)
            if self._remembered(read_header(file)):
                break
            file.unlink()
            del self._ids[0]
        return True

    def unread(self, end: int, size: int) -> int:
        """Return the bytes that a consumer still has to read; all while there is no consumer."""
        floor = max(self._log.consumers.floor(self._receiver), self.first)
        return size - self._header(floor).bytes_before if floor < end else 0

    def _header(self, number: int) -> Header:
        return read_header(file_of(self._folder, number))

    def _spared(self, end: int, size: int) -> list[Header]:
        """Return the oldest segments that nobody wants, so many as are removed at once."""
        floor = min(self._log.consumers.floor(self._receiver), end - 1)
        found: list[Header] = []
        for number in range(self.first, min(floor, self.first + _TOGETHER)):
            header = self._header(number)
            if not self._spare(header, size):
                break
            found.append(header)
        return found

    def _spare(self, header: Header, size: int) -> bool:
        if self._age is not None:
            return time.time() - header.created > self._age
        return self._size is None or size - header.bytes_before > self._size

    def _remembered(self, header: Header) -> bool:
        """Whether a copy of what a segment holds may still come."""
        return time.time() - max(header.created, self._began) <= self._horizon

    def _remove(self, run: Sequence[Header]) -> None:
        """Remove segments that follow each other, leaving their ids where they are still needed.

        The ids stand in one file, which has the newest's name and time.
        """
        files = [file_of(self._folder, header.number) for header in run]
        needed = [
            open_segment(file)[1].column(ID).drop_null()
            for file, header in zip(files, run, strict=True)
            if self._remembered(header)
        ]
        if any(map(len, needed)):
            # Before the segments go. Without room they stay until nobody needs their ids any more.
            ids = pa.record_batch([pa.concat_arrays(needed)], [ID])
            last = run[-1]
            write(self._folder, replace(last, rows=ids.num_rows), ids, IDS_SUFFIX)
            if last.number not in self._ids:  # left by a kill at this point
                self._ids.append(last.number)
        for file in files:
            file.unlink()
        self.first = run[-1].number + 1

    def tidy_whole(self) -> bool:
        """Do the same for a folder in which nobody writes any more."""
        end = whole_run(self._folder)[1]
        if not end:
            return True
        newest = file_of(self._folder, end - 1)
        return self.tidy(end, read_header(newest).bytes_before + newest.stat().st_size)
