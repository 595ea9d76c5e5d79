"""Removes segments that nobody wants any more."""

from __future__ import annotations

import time
from datetime import timedelta

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


class Retention:
    """Keeps one receiver's folder as small as its readers allow; the caller holds its lock.

    The newest segment always stays: it tells where the numbers and the far side go on.
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

    def tidy(self, end: int, size: int) -> None:
        """Remove what every consumer has read, and `keep` does not hold.

        Args:
            end: the number after the newest segment.
            size: the bytes of all segments that were ever written.
        """
        floor = min(self._log.consumers.floor(self._receiver), end - 1)
        if self.first < floor and self._spare(self._header(self.first), size):
            with self._log.consumers.locked():
                floor = min(self._log.consumers.floor(self._receiver), end - 1)
                while self.first < floor and self._spare(header := self._header(self.first), size):
                    self._remove(header)
                    self.first += 1
        while self._ids:
            file = file_of(self._folder, self._ids[0], IDS_SUFFIX)
            if time.time() - read_header(file).created <= self._horizon:
                break
            file.unlink()
            del self._ids[0]

    def unread(self, end: int, size: int) -> int:
        """Return the bytes that a consumer still has to read; all while there is no consumer."""
        floor = max(self._log.consumers.floor(self._receiver), self.first)
        return size - self._header(floor).bytes_before if floor < end else 0

    def _header(self, number: int) -> Header:
        return read_header(file_of(self._folder, number))

    def _spare(self, header: Header, size: int) -> bool:
        if self._age is not None:
            return time.time() - header.created > self._age
        return self._size is None or size - header.bytes_before > self._size

    def _remove(self, header: Header) -> None:
        """Remove a segment, leaving its ids where they are still needed."""
        file = file_of(self._folder, header.number)
        if time.time() - header.created <= self._horizon:
            batch = open_segment(file)[1]
            if batch.column(ID).null_count < batch.num_rows:
                # Before the segment goes. Without room it stays until nobody needs its ids any more.
                write(self._folder, header, batch.select([ID]), IDS_SUFFIX)
                if header.number not in self._ids:  # left by a kill at this point
                    self._ids.append(header.number)
        file.unlink()

    def tidy_whole(self) -> None:
        """Do the same for a folder in which nobody writes any more."""
        end = whole_run(self._folder)[1]
        if end:
            newest = file_of(self._folder, end - 1)
            self.tidy(end, read_header(newest).bytes_before + newest.stat().st_size)
