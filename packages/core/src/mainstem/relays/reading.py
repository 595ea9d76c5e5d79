"""How a relay's log is read: by segment, and with the watermark that each was made under."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.columns import evolved
from mainstem.contracts.ddl import Column, read_columns
from mainstem.contracts.log_source import Offset, Planner, Reading
from mainstem.contracts.shapes import CARRIED
from mainstem.errors import PipelineError
from mainstem.relays.log import RelayLog

if TYPE_CHECKING:
    import pyarrow as pa

#: A batch takes segments until it has so many rows.
_ROWS = 1_000_000
_CHUNK = 100_000
#: How often it is looked whether what comes next was removed before it was read, in seconds.
_LOOK = 60.0


@dataclass(frozen=True)
class Part:
    """What one task reads: files, and a watermark, in milliseconds since 1970, if it is to tell one."""

    files: tuple[str, ...]
    watermark: int | None = None


@dataclass(frozen=True)
class RelayReading(Reading):
    """One read of a relay.

    Attributes:
        folder: of the log.
        timed: whether the rows come with a column `CARRIED`, in rows of its own.
        tasks: into how many parts a batch is cut at most.
        behind: how far the rows may be behind the watermark that they were written under, in
            milliseconds: as far behind it is told.
    """

    folder: Path
    timed: bool
    tasks: int
    behind: int = 0

    def schema(self) -> str:
        columns = read_columns(RelayLog(self.folder).columns())
        if self.timed:
            columns = (*columns, Column(CARRIED, "timestamp"))
        return ", ".join(column.ddl for column in columns)

    def planner(self) -> Planner:
        return _Segments(self)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if part.watermark is not None:
            columns = [
                pa.array([part.watermark * 1000], pa.timestamp("us", "UTC")).cast(field.type)
                if field.name == CARRIED
                else pa.nulls(1, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        for file in part.files:
            with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as rows:
                for batch in rows.iter_batches(_CHUNK):
                    try:
                        yield evolved(batch, schema)
                    except ValueError as error:
                        raise PipelineError(
                            f"{file} was written when {error}. Read what is left with the document as "
                            "it was, or start over with `--fresh`"
                        ) from None


class _Segments(Planner):
    """Lets each batch read the segments that are there."""

    def __init__(self, reading: RelayReading) -> None:
        self._reading = reading
        self._log = RelayLog(reading.folder)
        self._look_at = 0.0
        self._bound: int | None = None

    def initial(self) -> Offset:
        return {"relay": self._log.identity(), "segment": self._log.first() - 1}

    def latest(self, start: Offset) -> Offset:
        self._check(start)
        end, rows = start["segment"], 0
        for entry in self._log.after(end):
            if self._bound is not None and entry.number > self._bound:
                break
            end, rows = entry.number, rows + entry.rows
            if rows >= _ROWS:
                break
        if end == start["segment"]:
            self._look(end)
        return {**start, "segment": end}

    def _look(self, read: int) -> None:
        """See now and then that what comes next was not removed: later segments are there without it.

        Raises:
            PipelineError: it was.
        """
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK
            if max(self._log.numbers(), default=0) > read:
                self._log.entry(read + 1)

    def parts(self, start: Offset, end: Offset) -> Sequence[Part]:
        self._check(start)
        files: list[tuple[Path, int]] = []
        watermark: int | None = None
        for number in range(start["segment"] + 1, end["segment"] + 1):
            files += self._log.files(number)
            told = self._log.entry(number).watermark
            watermark = told if told is not None else watermark
        told = None
        if self._reading.timed and watermark is not None:
            told = watermark - self._reading.behind
        made = [Part(tuple(map(str, each))) for each in _shared(files, self._reading.tasks)]
        return [*made, Part((), told)] if told is not None else made

    def prepare(self) -> None:
        last = self._log.last()
        self._bound = last.number if last is not None else 0

    def newest(self) -> Offset | None:
        last = self._log.last()
        return {"segment": last.number} if last is not None else None

    def _check(self, offset: Offset) -> None:
        if offset["relay"] != self._log.identity():
            raise PipelineError(
                f"the relay in {self._reading.folder} was made anew since it was read: start over with "
                "`--fresh`"
            )


def _shared(files: Sequence[tuple[Path, int]], parts: int) -> list[list[Path]]:
    """Return files in so many parts, at most, of about as many rows each."""
    made: list[list[Path]] = [[] for _ in range(max(1, min(parts, len(files))))]
    sizes = [0] * len(made)
    for file, rows in sorted(files, key=lambda each: -each[1]):
        least = sizes.index(min(sizes))
        made[least].append(file)
        sizes[least] += rows
    return [part for part in made if part]
