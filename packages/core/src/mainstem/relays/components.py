"""The two ends of a relay: the sink of the query above, and the source of those below."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.contracts.abilities import (
    Forgetful,
    Lag,
    Measurable,
    Prepared,
    Punctuated,
    Reached,
    Rewindable,
    Verifiable,
)
from mainstem.contracts.capabilities import SinkCapabilities, SourceCapabilities
from mainstem.contracts.components import Delivery, Sink, Source
from mainstem.contracts.ddl import Column
from mainstem.contracts.guarantee import Promise
from mainstem.contracts.options import Options
from mainstem.contracts.shapes import COMMIT_VERSION, Changelog, Shape, sequenced_by_batch
from mainstem.errors import OptionError
from mainstem.history import History
from mainstem.paths import for_spark
from mainstem.relays.log import RelayLog
from mainstem.relays.marking import Marking, Marks
from mainstem.relays.reading import RelayReading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem.contracts.contexts import Batch, SourceContext

_BEGINNING = datetime.fromtimestamp(0, UTC)
#: Types that Parquet has none for; a name that a colon follows is a field's.
_NOT_HELD = re.compile(r"\b(interval|variant|void)\b(?!:)")
_QUOTED = re.compile(r"`[^`]*`")


class NoOptions(Options):
    """None."""


class RelaySink(Sink, Prepared, Forgetful):
    """Writes a stream into the log of a relay, each batch once.

    Args:
        checkpoint: the pipeline's folder.
        name: the relay's.
        keep: how long what was written stays after all have read it.
        marking: how the rows make the watermark, if it is not the query's alone.

    Attributes:
        marking: the same.
        readers: by query, the names of its reads of the relay: what all of them have read is removed.
    """

    options: NoOptions
    capabilities = SinkCapabilities(replaces_batch=True, uses=("_id",))

    def __init__(
        self,
        checkpoint: Path,
        name: str,
        keep: timedelta | None = None,
        marking: Marking | None = None,
    ) -> None:
        super().__init__(NoOptions())
        self.marking = marking
        #: When this run has written first, and last, in seconds since 1970; 0 before.
        self._begun = self._before = 0.0
        self._checkpoint = checkpoint
        self._keep = keep or timedelta()
        self.log = RelayLog(checkpoint / "relays" / name)
        self.readers: Mapping[str, Sequence[str]] = {}
        self._sequence = ""

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        self._begun = self._before = 0.0
        for column in columns:
            kind = column.type or ""
            if _NOT_HELD.search(_QUOTED.sub("", kind)):
                raise OptionError(
                    f"a relay can't hold the column {column.name}, of type {kind}",
                    hint="Make text of it before, or write `relay: false`.",
                )
        self.log.prepare(", ".join(replace(column, nullable=True).ddl for column in columns))
        if sequenced_by_batch(shape):
            # A query that starts over numbers its batches from 0, and its changes are the newer ones.
            self._sequence = f"{COMMIT_VERSION} + {self.log.begun()}L"

    def write(self, frame: DataFrame, batch: Batch) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        last = self.log.last()
        if last is not None and last.query_id == batch.query_id and batch.id <= last.batch:
            # Spark commits state only for what was computed.
            frame.write.format("noop").mode("overwrite").save()
            return
        if self._sequence:
            frame = frame.withColumn(COMMIT_VERSION, F.expr(self._sequence))
        room = self.log.room()
        frame.write.parquet(for_spark(room))
        history = History(self._checkpoint / "queries" / batch.query)
        mark = _millis(history.offsets(batch.id).watermark)
        files = _rows(room)
        marks: Marks = {}
        if self.marking is not None:
            now = time.time()
            self._begun = self._begun or now
            known = last.marks if last is not None else {}
            marks = self.marking.marks(known, [room / name for name in files], now)
            # What had rows when this batch was planned, soon after the last one, is in it.
            reached = self.marking.watermark(marks, self._begun, self._before or now)
            told = [mark, reached, last.watermark if last else None]
            mark = max((each for each in told if each is not None), default=None)
            self._before = now
        if files or (mark is not None and (last is None or mark != last.watermark)):
            self.log.add(batch.query_id, batch.id, mark, files, marks)
        self._remove_read()

    def forget(self, query_id: str, after: int) -> None:
        self.log.forget(query_id, after)

    def read_beyond(self, query_id: str, batch: int) -> list[str]:
        """Return the queries that have read what later batches than one have given."""
        entries = [self.log.entry(number) for number in self.log.numbers()]
        later = [e.number for e in entries if e.query_id == query_id and e.batch > batch]
        found = []
        for query, reads in self.readers.items() if later else ():
            history = History(self._checkpoint / "queries" / query)
            planned = max(history.planned(), default=None)
            ends = history.offsets(planned).ends if planned is not None else {}
            if any(_segment(ends.get(read)) >= later[0] for read in reads):
                found.append(query)
        return found

    def _remove_read(self) -> None:
        """Remove what every reader has read in a batch before its last one, which nobody wants again."""
        read: list[int] = []
        for query, reads in self.readers.items():
            history = History(self._checkpoint / "queries" / query)
            done = history.committed()
            if len(done) < 2:
                return
            ends = history.offsets(done[-2]).ends
            read += [_segment(ends.get(name)) for name in reads]
        self.log.remove_old(min(read, default=0), time.time() - self._keep.total_seconds())


class RelaySource(Source, Measurable, Rewindable, Punctuated, Verifiable):
    """Reads a stream from the log of a relay, in the order in which it was written."""

    options: NoOptions
    capabilities = SourceCapabilities(replayable=True, ordered=True)

    def __init__(
        self,
        checkpoint: Path,
        name: str,
        shape: Shape,
        *,
        timed: bool,
        behind: timedelta = timedelta(),
    ) -> None:
        super().__init__(NoOptions())
        self._log = RelayLog(checkpoint / "relays" / name)
        self._shape = shape
        self._timed = timed
        self._behind = behind

    def shape(self) -> Shape:
        return self._shape

    def punctuates(self) -> bool:
        return self._timed

    def first(self) -> int:
        """Return the number of the oldest segment that is there; 1 before there is any."""
        return self._log.first()

    def damage(self, home: Path) -> Iterable[str]:
        return self._log.damage()

    def load(self, ctx: SourceContext) -> DataFrame:
        tasks = ctx.spark.sparkContext.defaultParallelism
        folder = self._log.folder.absolute()
        # In whole milliseconds, as Spark's watermarks are: rather more than less.
        behind = -(-self._behind // timedelta(milliseconds=1))
        return ctx.read_planned(RelayReading(folder, self._timed, tasks, behind))

    def end(self, home: Path) -> Mapping[str, str]:
        last = self._log.last()
        return {"relay": str(last.number if last is not None else 0)}

    def lag(self, reached: Reached) -> Sequence[Lag]:
        waiting = list(self._log.after(max(_segment(reached.offset), self.first() - 1)))
        oldest = next((entry.at for entry in waiting if entry.rows), None)
        seconds = 0.0 if oldest is None else max(0.0, time.time() - oldest)
        return [Lag("relay", sum(entry.rows for entry in waiting), seconds)]

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> Source:
        raise OptionError("a relay keeps what is to be read; replay what is above it")

    def gone(self, since: Reached) -> str:
        read, first = _segment(since.offset), self.first()
        if first <= read + 1:
            return ""
        return f"segments {read + 1} to {first - 1} of the relay"


class Relaying(Delivery):
    """Hands batches to a relay, which knows those that it has."""

    options: NoOptions

    def __init__(self) -> None:
        super().__init__(NoOptions())

    def promise(self, sink: Sink, shape: Shape) -> Promise:
        return Promise()

    def write(self, sink: Sink, frame: DataFrame, batch: Batch) -> DataFrame | None:
        return sink.write(frame, batch)


def below_relay(shape: Shape) -> Shape:
    """Return what a stream is below a relay: what tells the batch of a change is its sequence."""
    if sequenced_by_batch(shape):
        assert isinstance(shape, Changelog)  # noqa: S101
        return replace(shape, sequence=COMMIT_VERSION, sequence_type="bigint")
    return shape


def _rows(folder: Path) -> dict[str, int]:
    """Return the Parquet files of a folder that have rows, and how many."""
    import pyarrow.parquet as pq

    found = {file.name: pq.read_metadata(file).num_rows for file in folder.glob("*.parquet")}
    return {name: rows for name, rows in sorted(found.items()) if rows}


def _millis(at: datetime | None) -> int | None:
    return None if at is None else (at - _BEGINNING) // timedelta(milliseconds=1)


def _segment(offset: Any) -> int:
    return 0 if offset is None else int(offset["segment"])
