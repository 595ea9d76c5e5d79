"""Plans the batches of a stream that is read by sequence.

An offset is `{"stream": its name, "created": when it was made, "sequence": the last one that was read,
"at": when that message was stored}`; `at` is null where it is gone. What lies between two offsets is a
fixed set of messages, until they are deleted. The first offset of a checkpoint has `"first": true` and no
`at`; with `subjects`, an end has `after`: up to there nothing is read, and nothing was gone unseen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mainstem import Offset, PermanentError, Planner, Reading, TransientError, failpoint
from mainstem.durable import made_folder, read_whole, write_whole

from mainstem_broker_nats.source import columns
from mainstem_broker_nats.source.ranges import ANEW, Chunk, Range, check_created
from mainstem_broker_nats.source.stream import State, Stream, check_log

if TYPE_CHECKING:
    import pyarrow as pa
    from mainstem import Progress

    from mainstem_broker_nats.source.options import ReadingOptions

#: Where reading begins: a sequence is the first that is read, an offset lies before it.
Begin = Literal["earliest", "latest"] | int | datetime | Mapping[str, Any]

#: Spark asks for news a hundred times in a second; the server is asked so often at most, in seconds.
_EVERY = 0.05
#: The offset moves on past messages of other subjects so often, in seconds.
_MOVE = 60.0


class Part(NamedTuple):
    """Sequences for one task, after one and up to another, of the stream that was made at a time."""

    created: str
    after: int
    end: int


@dataclass(frozen=True)
class StreamRead:
    """One read of a node's stream.

    `begin` is where a new checkpoint begins, `tasks` how many read at once, `node` names the connection,
    `build` says what rows are made: `messages` or `changes`; `gaps` says what to do about sequences that
    are not there: `ignore` them, `report` them as rows, or `fail`. `progress` is what the checkpoint says
    of the read, and `first` the file that keeps its first offset: Spark asks for that again until the
    first batch is done.
    """

    options: ReadingOptions
    stream: str
    subjects: tuple[str, ...]
    begin: Begin
    tasks: int
    node: str
    build: str
    gaps: Literal["ignore", "report", "fail"]
    progress: Progress | None = None
    first: Path | None = None

    def open(self, part: str) -> Stream:
        """Return the stream, not connected yet; `part` tells who reads."""
        return Stream(self.options, self.stream, self.subjects, f"mainstem {self.node} {part}")


class StreamPlanner(Planner):
    """Says what each batch reads.

    Args:
        reading: the read.
    """

    def __init__(self, reading: StreamRead) -> None:
        self._reading = reading
        self._stream = reading.open("planner")
        self._asked = 0.0
        self._last: int | None = None
        #: Up to which sequence nothing is read, and nothing was gone before that was looked.
        self._nothing_upto = 0
        self._moved = time.monotonic()

    def initial(self) -> Offset:
        """Return the first offset: `begin`, looked up once for each checkpoint."""
        kept = self._kept()
        if kept is not None:
            return kept
        found = self._stream.patiently(lambda: begin(self._stream, self._reading.begin))
        if self._reading.first is not None:
            made_folder(self._reading.first.parent)
            write_whole(self._reading.first, json.dumps(found))
        failpoint("jetstream.after-first-offset")
        return found

    def _kept(self) -> Offset | None:
        """Return the first offset of a checkpoint that has planned a batch with it."""
        file, progress = self._reading.first, self._reading.progress
        if file is None or progress is None or not file.exists():
            return None
        planned = progress.planned()
        if planned is None or planned[1] is None:
            return None  # of an older checkpoint in the same place
        found: Offset = json.loads(read_whole(file))
        return found

    def latest(self, start: Offset) -> Offset:
        """Return where the next batch ends; `start` if there is nothing new."""
        now = time.monotonic()
        # A bounded run ends when nothing is new, so it is never told so unasked.
        if self._last is None and now - self._asked < _EVERY:
            return start
        found = self._stream.patiently(lambda: self._latest(start))
        self._asked = time.monotonic()
        failpoint("jetstream.after-latest")
        return found

    def _latest(self, start: Offset) -> Offset:
        state = self._checked(start, self._nothing_upto)
        read = int(start["sequence"])
        last = state.last if self._last is None else min(state.last, self._last)
        if last <= read:
            # A batch of nothing, so that what comes before the first message is not skipped by a restart.
            fresh = start.get("first") and self._reading.begin == "latest" and last == read
            return self._end(start, read) if fresh else start
        begins = max(read, state.first - 1)
        more = {}
        if self._reading.subjects:
            known = max(read, self._nothing_upto)
            whole = begins <= known
            begins = max(begins, known)
            found = self._stream.next(begins + 1) if begins < last else None
            if found is None or found[0] > last:
                if whole:
                    self._nothing_upto = last
                    waits = self._last is None and time.monotonic() - self._moved < _MOVE
                    return start if waits else self._end(start, last, after=last)
                return self._end(start, last, after=min(known, last))
            begins = found[0] - 1
            more = {"after": begins if whole else known}
        limit = begins + self._reading.options.max_rows
        return self._end(start, min(last, limit), **more)

    def _end(self, start: Offset, sequence: int, **more: int) -> Offset:
        """Return the offset of a batch that ends at a sequence."""
        self._check_time(start)
        self._moved = time.monotonic()
        at = self._stream.stored_at(sequence)
        return {
            "stream": start["stream"],
            "created": start["created"],
            "sequence": sequence,
            "at": at,
            **more,
        }

    def prepare(self) -> None:
        """Let the batches to come end where the stream ends now."""

        def look() -> int:
            return self._stream.state().last

        self._last = self._stream.patiently(look)

    def parts(self, start: Offset, end: Offset) -> list[Part]:
        first, last = int(start["sequence"]), int(end["sequence"])
        if last > first:
            first = max(first, int(end.get("after", 0)))

        def look() -> State:
            state = self._checked(start, first)
            for offset in (start, end):
                self._check_time(offset)
            _check_reaches(state, end)
            return state

        state = self._stream.patiently(look)
        if last <= first:
            return []
        # What is not there takes no time: the first task tells of it.
        begins = min(max(first, state.first - 1), last)
        least = self._reading.options.rows_per_task
        parts = min(self._reading.tasks, max(1, (last - begins) // least))
        cuts = [begins + (last - begins) * part // parts for part in range(parts + 1)]
        cuts[0] = first
        failpoint("jetstream.after-ranges")
        return [Part(str(start["created"]), after, upto) for after, upto in pairwise(cuts)]

    def close(self) -> None:
        """End the connection."""
        self._stream.close()

    def _checked(self, start: Mapping[str, Any], nothing_upto: int) -> State:
        """Return what the stream is now.

        Args:
            start: what was read.
            nothing_upto: the sequence up to which nothing is to be read.

        Raises:
            ExternalError: it is not the one that was read, or what is not read any more is gone and was
                not to be.
        """
        state = self._stream.state()
        check_created(state, start["created"])
        check_log(state)
        # A sequence to begin at need not be there yet.
        if not (start.get("first") and isinstance(self._reading.begin, int)):
            _check_reaches(state, start)
        read = max(int(start["sequence"]), nothing_upto)
        if self._reading.gaps == "fail" and state.first > read + 1:
            raise PermanentError(
                f"the stream {state.name!r} begins at {state.first}, and the checkpoint has read to "
                f"{read}: what is between was removed before it was read. `on_loss: report` goes on and "
                "tells of it"
            )
        return state

    def _check_time(self, offset: Mapping[str, Any]) -> None:
        """Refuse a stream whose message of an offset is another one now.

        Raises:
            ExternalError: it fell back, and has given sequences to new messages.
        """
        noted = offset.get("at")
        at = self._stream.stored_at(int(offset["sequence"])) if noted else None
        if at is not None and at != noted:
            raise PermanentError(
                f"message {offset['sequence']} of the stream {offset['stream']!r} is of {at}, and the "
                f"checkpoint has read one of {noted}: the stream fell back (an older copy, or a server "
                f"that lost what it had not synced), and its sequences mean something else. {ANEW}"
            )


def _check_reaches(state: State, offset: Mapping[str, Any]) -> None:
    """Refuse a stream that ends before an offset; a leader or a mirror may be behind for a while.

    Raises:
        ExternalError: it does.
    """
    read = int(offset["sequence"])
    if state.last < read:
        raise TransientError(
            f"the stream {state.name!r} ends at {state.last}, and the checkpoint has read to {read}: "
            f"was it restored from an older copy? {ANEW}"
        )


def begin(stream: Stream, where: Begin) -> Offset:
    """Return the offset at which reading begins.

    Raises:
        ExternalError: the stream is another one than that of an offset.
        OptionError: the stream can't be read by sequence.
    """
    state = stream.state()
    check_log(state)
    if isinstance(where, Mapping):
        check_created(state, where["created"])
        return dict(where)
    if isinstance(where, datetime):
        read = stream.before(where)
    elif isinstance(where, int):
        read = where - 1
    else:
        read = state.first - 1 if where == "earliest" else state.last
    # A sequence that is not there yet is where reading begins when it comes.
    sequence = max(0, read)
    return {"stream": state.name, "created": state.created, "sequence": sequence, "first": True}


#: Rows go to Spark in batches of about so many, or so many bytes.
_ROWS, _BYTES = 4_000, 16 * 2**20
_BUILD: dict[str, tuple[columns.Build, str]] = {
    "messages": (columns.message_rows, columns.MESSAGE_SCHEMA),
    "changes": (columns.change_rows, columns.CHANGE_SCHEMA),
}


class StreamReading(StreamRead, Reading):
    """One read of a node's stream: its planner, and what a task of it reads."""

    def schema(self) -> str:
        return _BUILD[self.build][1]

    def planner(self) -> Planner:
        return StreamPlanner(self)

    def read(self, part: Part, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        build = _BUILD[self.build][0]
        # Ended from the inside out, also when Spark wants no more: a range takes leave over the
        # connection.
        with closing(self.open("reader")) as stream:
            range_ = Range(stream, *part, gaps=self.gaps != "ignore")
            with closing(range_.chunks()) as chunks:
                for chunk in _together(chunks):
                    if chunk.gaps and self.gaps == "fail":
                        raise PermanentError(
                            f"the stream {self.stream!r} lacks {chunk.gaps[0].first} to "
                            f"{chunk.gaps[0].last}: {chunk.gaps[0].reason}. `on_loss: report` goes on "
                            "and tells of it"
                        )
                    yield build(chunk, self.stream, schema)


def _together(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield chunks of a size that makes their way to Spark cheap."""
    whole, size = Chunk(), 0
    for chunk in chunks:
        whole.messages += chunk.messages
        whole.sequences += chunk.sequences
        whole.times += chunk.times
        whole.gaps += chunk.gaps
        size += sum(len(raw.data) for raw in chunk.messages)
        if len(whole.messages) >= _ROWS or size >= _BYTES:
            yield whole
            whole, size = Chunk(), 0
    if whole.messages or whole.gaps:
        yield whole
