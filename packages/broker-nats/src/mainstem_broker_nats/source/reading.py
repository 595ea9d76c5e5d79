"""One read of a stream by sequence: who plans its batches, and what a task reads."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from mainstem import PermanentError, Planner, Reading

from mainstem_broker_nats.source import columns
from mainstem_broker_nats.source.planning import Part, StreamPlanner, StreamRead
from mainstem_broker_nats.source.ranges import Chunk, Range

if TYPE_CHECKING:
    import pyarrow as pa

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
