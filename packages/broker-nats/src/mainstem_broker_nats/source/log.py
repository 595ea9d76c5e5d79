"""A stream of JetStream as a log that is read by position: its sequences."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from mainstem.positions import Chunk, Part, PositionLog, Seen, Span

from mainstem_broker_nats.source import columns
from mainstem_broker_nats.source.ranges import Messages, Range
from mainstem_broker_nats.source.stream import Stream, age, check_log

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem_broker_nats.source.options import ReadingOptions

#: Rows go to Spark in batches of about so many, or so many bytes.
_ROWS, _BYTES = 4_000, 16 * 2**20
Kind = Literal["messages", "changes"]
_BUILDS: dict[Kind, columns.Build] = {
    "messages": columns.message_rows,
    "changes": columns.change_rows,
}


class StreamLog(PositionLog):
    """A stream, which is one partition; some of its subjects, or all.

    Args:
        options: of the source.
        stream: the stream's name.
        subjects: which are read; none for all.
        node: names the connection, with who reads.
        kind: of the rows that are made.
        reader: who reads.
    """

    stamped = True

    def __init__(
        self,
        options: ReadingOptions,
        stream: str,
        subjects: Sequence[str],
        node: str,
        kind: Kind,
        reader: str,
    ) -> None:
        self.stream = Stream(options, stream, subjects, f"mainstem {node} {reader}")
        self.sparse = bool(subjects)
        self._build = _BUILDS[kind]

    def called(self, partition: str) -> str:
        return f"the stream {self.stream.name!r}"

    def look(self) -> Seen:
        state = self.stream.state()
        check_log(state)
        return Seen(state.created, {state.name: Span(state.first, state.last, state.deleted)})

    def at(self, time: datetime) -> Mapping[str, int]:
        return {self.stream.name: self.stream.before(time)}

    def read(self, part: Part, schema: pa.Schema, *, gaps: bool) -> Generator[Chunk]:
        found = Range(self.stream, part.identity, part.after, part.end, gaps=gaps)
        with closing(found.chunks()) as chunks:
            for chunk in _together(chunks):
                yield Chunk(self._build(chunk, self.stream.name, schema), chunk.gaps)

    def next(self, partition: str, position: int) -> int | None:
        found = self.stream.next(position)
        return None if found is None else found[0]

    def waiting(self, partition: str, after: int, last: int) -> int:
        return self.stream.waiting(after)

    def age(self, partition: str, after: int) -> float | None:
        oldest = self.stream.next(after + 1)
        return age(oldest[1]) if oldest else 0.0

    def stamp(self, partition: str, position: int) -> str | None:
        return self.stream.stored_at(position)

    def reset(self) -> None:
        self.stream.close()

    def close(self) -> None:
        self.stream.close()


def _together(chunks: Iterator[Messages]) -> Iterator[Messages]:
    """Yield chunks of a size that makes their way to Spark cheap."""
    whole, size = Messages(), 0
    for chunk in chunks:
        whole.messages += chunk.messages
        whole.sequences += chunk.sequences
        whole.times += chunk.times
        whole.gaps += chunk.gaps
        size += sum(len(raw.data) for raw in chunk.messages)
        if len(whole.messages) >= _ROWS or size >= _BYTES:
            yield whole
            whole, size = Messages(), 0
    if whole.messages or whole.gaps:
        yield whole
