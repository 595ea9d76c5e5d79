"""How Spark reads a log: which segments a batch has, and how a task gives them as rows.

An offset is `{receiver: the first segment beyond}`, in the receivers' order. Whatever lies between two
offsets are whole, immutable segments, so a range reads the same for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from mainstem import MESSAGE_COLUMNS, Offset, Planner, Reading
from mainstem.columns import evolved, read_columns

from mainstem_ingress.errors import LogError
from mainstem_ingress.log import Log, ends_complete
from mainstem_ingress.segments import ID, NO_ROOM, REASON, Header, file_of, open_segment
from mainstem_ingress.source import PLACES

#: Segments are put together into batches of about so many rows, or bytes, for the way to Spark.
_ROWS, _BYTES = 4_000, 16 * 2**20
#: A task reads at least so many rows, where there are enough.
_TASK_ROWS = 20_000

_SCHEMA = ", ".join(column.ddl for column in MESSAGE_COLUMNS)


class Range(NamedTuple):
    """Segments of one receiver, for one task."""

    receiver: str
    first: int
    end: int


@dataclass(frozen=True)
class LogReading(Reading):
    """One read of a log.

    Attributes:
        folder: the log's.
        extra: DDL of the source's own columns.
        refused: whether refused messages are given too, with the reason as the last column: each column
            takes time to go to Spark.
        max_rows: the most rows of a batch, but for a single segment that has more.
        max_bytes: the same in bytes.
        tasks: about how many read at once.
        consumer: the name under which progress is kept; none holds nothing back.
        start: seconds since 1970: the first segment stored since then.
        evolves: whether segments of other columns are read, as far as they have those of now.
        most_together: batches end only where what belongs together is whole, and that is so many bytes at
            most; None for anywhere.
    """

    folder: Path
    max_rows: int
    max_bytes: int
    extra: str = ""
    refused: bool = False
    tasks: int = 1
    consumer: str = ""
    start: float | None = None
    evolves: bool = True
    most_together: int | None = None

    def schema(self) -> str:
        refused = f"{REASON} STRING" if self.refused else ""
        extra = self.extra
        columns = read_columns(extra) if extra else ()
        if any(column.name in PLACES for column in columns):  # they are in ours
            extra = ", ".join(column.ddl for column in columns if column.name not in PLACES)
        return ", ".join(filter(None, (_SCHEMA, extra, refused)))

    def planner(self) -> Planner:
        return LogPlanner(self)

    def read(self, part: Range, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        folder = Log(self.folder).receiver(part.receiver)
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for number in range(part.first, part.end):
            file = file_of(folder, number)
            _, batch = open_segment(file)
            if not self.evolves:
                _check_same(batch.schema, schema, file)
            waiting.append(_as_given(batch, part.receiver, number, schema, file))
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _ROWS or size >= _BYTES:
                yield _together(waiting)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield _together(waiting)


class LogPlanner(Planner):
    """Says which segments each batch reads."""

    def __init__(self, reading: LogReading) -> None:
        self.reading = reading
        self._log = Log(reading.folder)
        self._known: dict[str, int] = {}
        #: By receiver: the last end that is complete, and up to where that was looked for.
        self._complete: dict[str, tuple[int, int]] = {}
        self._told: dict[str, int] | None = None
        self._last: dict[str, int] | None = None

    def initial(self) -> Offset:
        if not self.reading.consumer:
            return self._first()
        # What this consumer begins with must stay until it has read it.
        with self._log.consumers.locked():
            first = self._first()
            self._log.consumers.put(self.reading.consumer, first)
        return first

    def _first(self) -> dict[str, int]:
        first = {name: self._log.earliest(name) for name in self._log.receivers()}
        start = self.reading.start
        if start is not None:
            first = {name: self._since(start, name, number) for name, number in first.items()}
        return first

    def _since(self, start: float, receiver: str, first: int) -> int:
        """Return the first segment that was stored at a time or later."""
        low, high = first, self._log.end(receiver)
        while low < high:
            middle = (low + high) // 2
            if self._log.header(receiver, middle).created < start:
                low = middle + 1
            else:
                high = middle
        return low

    def latest(self, start: Offset) -> Offset:
        self._progress(start)
        ends = self._last if self._last is not None else self._ends()
        ends = dict(ends)
        if self.reading.most_together is not None:
            ends = {name: self._whole(name, start.get(name, 0), end) for name, end in ends.items()}
        for name, read in start.items():
            if ends.get(name, 0) < read:
                end = self._log.end(name)
                if end < read:
                    raise LogError(
                        f"the log of receiver {name} ends at segment {end}, and the query has read to "
                        f"{read}: is {self._log.folder} the folder that it had before?"
                    )
                ends[name] = read
        if all(end == start.get(name, 0) for name, end in ends.items()):
            return start  # a receiver that has stored nothing yet is no news
        return _ordered(self._limited(start, ends))

    def _progress(self, start: Mapping[str, int]) -> None:
        """Keep how far the query has read. When Spark asks for more, all before is committed."""
        if self.reading.consumer and start != self._told:
            try:
                self._log.consumers.put(self.reading.consumer, start)
            except OSError as error:
                if error.errno not in NO_ROOM:  # put when there is room: until then more is kept
                    raise
            else:
                self._told = dict(start)

    def _ends(self) -> dict[str, int]:
        for name in self._log.receivers():
            self._known[name] = self._log.end(name, self._known.get(name, 0))
        return dict(self._known)

    def _whole(self, name: str, start: int, end: int) -> int:
        """Return the last end up to another where what belongs together is whole.

        Raises:
            LogError: what belongs together has no room in the log.
        """
        folder = self._log.receiver(name)
        whole, looked = self._complete.get(name, (start, start))
        for number in range(max(looked, start) + 1, end + 1):
            if ends_complete(folder, number):
                whole = number
        if end > whole and ends_complete(folder, end):  # a cursor may have come since
            whole = end
        self._complete[name] = (whole, end)
        if end > start >= whole:
            first, last = self._log.header(name, start), self._log.header(name, end - 1)
            size = last.bytes_before - first.bytes_before + file_of(folder, end - 1).stat().st_size
            if size > (self.reading.most_together or 0):
                raise LogError(
                    f"{size:,} bytes belong together, of one transaction, and there is more of it: it "
                    "does not fit below `high_water`; give that more, or leave out `together`"
                )
        return whole

    def _limited(self, start: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, int]:
        """Return offsets up to `ends` that keep to the limits, each receiver getting its share."""
        names = [name for name in ends if ends[name] > start.get(name, 0)]
        rows, size = self.reading.max_rows / len(names), self.reading.max_bytes / len(names)
        found = dict(ends)
        for name in names:
            first = start.get(name, 0)
            begin = self._log.header(name, first)

            def within(end: int, name: str = name, begin: Header = begin) -> bool:
                """Whether the segments before `end` keep to the limits."""
                last = self._log.header(name, end - 1)
                so_far = last.rows_before + last.rows - begin.rows_before
                last_size = file_of(self._log.receiver(name), end - 1).stat().st_size
                return so_far <= rows and last.bytes_before + last_size - begin.bytes_before <= size

            low, high = first + 1, ends[name]  # one segment at least
            while low < high:
                middle = (low + high + 1) // 2
                if within(middle):
                    low = middle
                else:
                    high = middle - 1
            if self.reading.most_together is not None:
                folder = self._log.receiver(name)
                while low < ends[name] and not ends_complete(folder, low):
                    low += 1
            found[name] = low
        return found

    def prepare(self) -> None:
        ends = self._ends()
        if self.reading.most_together is not None:
            # What is whole now stays so for this run, though a cursor that said it may be overwritten.
            ends = {
                name: self._whole(name, self._log.earliest(name), end) for name, end in ends.items()
            }
        self._last = ends

    def newest(self) -> Offset | None:
        return _ordered(self._ends()) or None

    def parts(self, start: Offset, end: Offset) -> list[Range]:
        rows = {}
        for name, last in end.items():
            first = start.get(name, 0)
            if last > first:
                header = self._log.header(name, last - 1)
                before = self._log.header(name, first).rows_before
                rows[name] = header.rows_before + header.rows - before
        share = max(_TASK_ROWS, sum(rows.values()) / self.reading.tasks)
        found = []
        for name, count in rows.items():
            found += _split(name, start.get(name, 0), end[name], max(1, round(count / share)))
        return found


def _split(name: str, first: int, end: int, parts: int) -> list[Range]:
    parts = min(parts, end - first)
    cuts = [first + (end - first) * part // parts for part in range(parts + 1)]
    return [Range(name, a, b) for a, b in pairwise(cuts)]


def _ordered(offsets: Mapping[str, int]) -> dict[str, int]:
    """Return offsets in the receivers' order: Spark compares them as text."""
    return {name: offsets[name] for name in sorted(offsets, key=int)}


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)  # type: ignore[attr-defined]


def _check_same(stored: pa.Schema, wanted: pa.Schema, file: Path) -> None:
    """Refuse a segment of other columns than the source has now.

    Raises:
        LogError: it lacks one, has one more, or has one of another type.
    """
    own = {field.name: field.type for field in stored if field.name not in (*PLACES, REASON, ID)}
    now = {field.name: field.type for field in wanted if field.name not in (*PLACES, REASON)}
    if own.keys() != now.keys() or any(not _alike(own[name], now[name]) for name in own):
        before, after = (
            ", ".join(f"{n} {kind}" for n, kind in each.items()) for each in (own, now)
        )
        raise LogError(
            f"{file} was stored with the columns {before}, and the source has {after} now: read what is "
            "left with the document as it was, or write `on_new_columns: evolve`"
        )


def _alike(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types are one but for names within that Arrow and Spark give otherwise."""
    return stored == wanted or (pa.types.is_map(stored) and pa.types.is_map(wanted))


def _as_given(
    batch: pa.RecordBatch, receiver: str, number: int, schema: pa.Schema, file: Path
) -> pa.RecordBatch:
    """Return a segment's rows, with the columns that the log gives where the source does not.

    Raises:
        LogError: a value does not fit into its column's type.
    """
    count = batch.num_rows
    join: Any = pc.binary_join_element_wise
    made: dict[str, Callable[[], pa.Array[Any]]] = {
        "partition": lambda: pa.repeat(pa.scalar(receiver), count),
        "position": lambda: join(pa.scalar(f"{number:012d}"), _row_numbers(count), pa.scalar(".")),
    }
    try:
        given = evolved(batch, schema, made)
    except ValueError as error:
        raise LogError(
            f"{file} was stored when {error}. Read what is left with the document as it was"
        ) from None
    reasons = batch.column(REASON)
    if REASON in schema.names or reasons.null_count == count:
        return given
    return given.filter(reasons.is_null())


@cache
def _numbers_upto(size: int) -> pa.Array[Any]:
    return pc.utf8_lpad(pa.array(range(size)).cast(pa.string()), 8, "0")


def _row_numbers(count: int) -> pa.Array[Any]:
    """Return the text of the numbers from 0, eight wide."""
    return _numbers_upto(1 << max(12, (count - 1).bit_length())).slice(0, count)
