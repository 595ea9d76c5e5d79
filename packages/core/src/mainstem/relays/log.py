"""The log of a relay: what each batch of the query above has given, as files in the checkpoint.

- `id`: tells the log from one that was made anew in its place
- `begun`: when it was made, in milliseconds since 1970
- `columns`: of the rows, as DDL
- `segments/<number>/`: the Parquet files of one batch
- `<number>.json`: that the segment is whole; the batch it is of, and the watermark that it was made under

A segment without its entry is what a crash has left, and nobody reads it.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from mainstem.crashpoints import failpoint
from mainstem.durable import made_folder, read_whole, sync_folder, sync_tree, write_whole
from mainstem.errors import PipelineError

_WIDTH = 20
#: How many entries are kept in memory at most.
_MOST_KNOWN = 1000


@dataclass(frozen=True)
class Entry:
    """One segment.

    Attributes:
        number: from 1, without a gap.
        query_id: Spark's, of the query that wrote it.
        batch: the query's batch that it is of.
        watermark: the one that the batch was under, in milliseconds since 1970: no row of a later
            segment is before it, by the stream's event time. None before there is one.
        at: when it was written, in seconds since 1970.
        files: by name in the segment's folder, how many rows are in each.
        marks: by partition, how far it is, where the watermark goes by partitions; see `marking`.
    """

    number: int
    query_id: str
    batch: int
    watermark: int | None
    at: float
    files: dict[str, int]
    marks: dict[str, list[float]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.files.values())


class RelayLog:
    """One relay's log.

    Args:
        folder: made when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[int, Entry] = {}
        #: The oldest and the newest segment when they were last looked for.
        self._oldest = self._newest = 0

    # -- reading ----------------------------------------------------------------------------------

    def identity(self) -> str:
        """Return what tells the log from others; empty before anything was written."""
        file = self.folder / "id"
        return read_whole(file) if file.exists() else ""

    def begun(self) -> int:
        """Return when the log was made, in milliseconds since 1970."""
        return int(read_whole(self.folder / "begun"))

    def columns(self) -> str:
        """Return the columns of the rows, as DDL.

        Raises:
            PipelineError: the query above was never prepared.
        """
        try:
            return read_whole(self.folder / "columns")
        except FileNotFoundError:
            raise PipelineError(f"there is no relay in {self.folder}") from None

    def numbers(self) -> list[int]:
        """Return the numbers of the segments that are there, in order: lists a folder."""
        names = (file.name for file in self.folder.glob("*.json"))
        return sorted(int(name.removesuffix(".json")) for name in names)

    def entry(self, number: int) -> Entry:
        """Return what is known of a segment.

        Raises:
            PipelineError: it is gone, or its entry was changed.
        """
        if (known := self._known.get(number)) is not None:
            return known
        file = self._entry(number)
        try:
            found = Entry(**json.loads(read_whole(file)))
        except FileNotFoundError:
            raise PipelineError(
                f"{file} is gone, and has not been read: bring it back from a copy, or start over"
            ) from None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[number] = found
        return found

    def first(self) -> int:
        """Return the number of the oldest segment; 1 before there is any.

        Of segments that were removed a loss of power can bring some back: those before a gap are none.
        """
        numbers = self.numbers()
        first = numbers[-1] if numbers else 1
        for number in reversed(numbers[:-1]):
            if number != first - 1:
                break
            first = number
        return first

    def last(self) -> Entry | None:
        """Return the newest segment, or None."""
        if not self._entry(self._newest).exists():
            self._newest = max(self.numbers(), default=0)
        for entry in self.after(self._newest):
            self._newest = entry.number
        return self.entry(self._newest) if self._newest else None

    def after(self, number: int) -> Iterator[Entry]:
        """Yield the segments after one, in order, up to one that is not there."""
        while self._entry(number + 1).exists():
            number += 1
            yield self.entry(number)

    def files(self, number: int) -> list[tuple[Path, int]]:
        """Return the files of a segment, each with how many rows are in it."""
        folder = self._segment(number)
        return [(folder / name, rows) for name, rows in self.entry(number).files.items()]

    def damage(self) -> Iterator[str]:
        """Yield what is wrong with the log, in words: entries that were changed, rows that are gone."""
        import pyarrow.parquet as pq

        for number in self.numbers():
            try:
                for file, rows in self.files(number):
                    found = pq.read_metadata(file).num_rows
                    if found != rows:
                        yield f"{file} has {found} rows, and was written with {rows}"
            except Exception as error:
                yield f"segment {number} of {self.folder}: {error}"

    # -- writing ----------------------------------------------------------------------------------

    def prepare(self, columns: str) -> None:
        """Make the log, or note that its rows have other columns from now on."""
        made_folder(self.folder / "segments")
        if not (self.folder / "id").exists():
            write_whole(self.folder / "begun", str(time.time_ns() // 1_000_000))
            write_whole(self.folder / "id", uuid.uuid4().hex)
        if not (self.folder / "columns").exists() or self.columns() != columns:
            write_whole(self.folder / "columns", columns)

    def room(self) -> Path:
        """Return the folder, not there yet, that the files of the next segment are written into."""
        hidden = self.folder / "segments" / ".next"
        shutil.rmtree(hidden, ignore_errors=True)
        return hidden

    def add(
        self,
        query_id: str,
        batch: int,
        watermark: int | None,
        files: dict[str, int],
        marks: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """Add the segment whose files were written into `room`; it is on disk afterwards."""
        last = self.last()
        number = last.number + 1 if last is not None else 1
        hidden, segment = self.folder / "segments" / ".next", self._segment(number)
        failpoint("relay.before-segment")
        if files:
            sync_tree(hidden)
            shutil.rmtree(segment, ignore_errors=True)  # a crash has left it without its entry
            hidden.rename(segment)
            sync_folder(segment.parent)
        failpoint("relay.before-entry")
        kept = {name: list(mark) for name, mark in (marks or {}).items()}
        entry = Entry(number, query_id, batch, watermark, time.time(), files, kept)
        write_whole(self._entry(number), json.dumps(asdict(entry)))
        failpoint("relay.after-entry")

    def rename(self, ids: Mapping[str, str]) -> None:
        """Give the queries that have written segments other ids: in a copy they have."""
        for number in self.numbers():
            entry = self.entry(number)
            self._known[number] = found = replace(entry, query_id=ids.get(entry.query_id, ""))
            write_whole(self._entry(number), json.dumps(asdict(found)))

    def forget(self, query_id: str, after: int) -> None:
        """Remove what a query's batches after one have given; later ones go on with the same numbers."""
        entries = [self.entry(number) for number in self.numbers()]
        later = [e for e in entries if e.query_id == query_id and e.batch > after]
        if later and len(later) == len(entries) and later[0].number > 1:
            # Readers are at the numbers of before, and nothing else says where these go on. How far
            # each partition was is not known any more: no further than any of them was.
            lowest = min((at for at, _ in later[0].marks.values()), default=0.0)
            marks = {name: [lowest, seen] for name, (_, seen) in later[0].marks.items()}
            stand = replace(
                later[0],
                number=later[0].number - 1,
                batch=after,
                watermark=None,
                files={},
                marks=marks,
            )
            write_whole(self._entry(stand.number), json.dumps(asdict(stand)))
        self.remove([entry.number for entry in reversed(later)])

    def remove_old(self, number: int, before: float) -> None:
        """Remove the oldest segments: up to one, and as far as they were written before a time.

        The newest stays: it says which batch was written last, and what the next one's number is.
        """
        last = self.last()
        if last is None:
            return
        if not self._oldest:
            self._oldest = self.first()
            self.remove([each for each in self.numbers() if each < self._oldest])
        gone = []
        for each in range(self._oldest, min(number + 1, last.number)):
            if self.entry(each).at > before:
                break
            gone.append(each)
        self.remove(gone)
        self._oldest += len(gone)

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove segments; one that is gone is fine."""
        for number in numbers:
            self._entry(number).unlink(missing_ok=True)
            self._known.pop(number, None)
        if numbers:
            sync_folder(self.folder)
        for number in numbers:
            shutil.rmtree(self._segment(number), ignore_errors=True)

    def _entry(self, number: int) -> Path:
        return self.folder / f"{number:0{_WIDTH}}.json"

    def _segment(self, number: int) -> Path:
        return self.folder / "segments" / f"{number:0{_WIDTH}}"
