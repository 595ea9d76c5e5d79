"""Source `jetstream`: a stream, read as a log."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem import (
    LOST,
    Branching,
    Inputs,
    Lag,
    Level,
    Measurable,
    OptionError,
    Reached,
    Rewindable,
    Shape,
    Shown,
    Source,
    SourceCapabilities,
    SourceContext,
    messages,
)
from mainstem_ingress import split_lost

from mainstem_broker_nats.source.options import JetStreamSourceOptions, ReadingOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem_broker_nats.source.planning import Begin, StreamReading
    from mainstem_broker_nats.source.stream import Stream


class StreamLog:
    """What sources share that read a stream by sequence: measuring it, and going back in it.

    Args:
        options: of the component.
        stream: the stream's name.
        subjects: which of its subjects are read; none for all.
        begin: where a new checkpoint begins.
    """

    def __init__(
        self, options: ReadingOptions, stream: str, subjects: Sequence[str], begin: Begin
    ) -> None:
        self.options = options
        self.name = stream
        self.subjects = tuple(subjects)
        self.begin = begin
        self._rewound = False

    def reading(self, ctx: SourceContext, build: str, gaps: Any) -> StreamReading:
        """Return one read of the node."""
        from mainstem_broker_nats.source.planning import StreamReading

        tasks = self.options.partitions or ctx.spark.sparkContext.defaultParallelism
        name = f"{ctx.read_name} elsewhere" if self._rewound else ctx.read_name
        word = hashlib.sha256(name.encode()).hexdigest()[:16]
        return StreamReading(
            self.options,
            self.name,
            self.subjects,
            self.begin,
            tasks,
            ctx.node,
            build,
            gaps,
            ctx.progress,
            ctx.folder().absolute() / "first" / f"{word}.json",
        )

    def open(self) -> Stream:
        """Return the stream; not connected yet."""
        from mainstem_broker_nats.source.stream import Stream

        return Stream(self.options, self.name, self.subjects, "mainstem measuring")

    def end(self) -> Mapping[str, str]:
        """Return the stream's last sequence."""
        stream = self.open()
        try:
            return {self.name: str(stream.state().last)}
        finally:
            stream.close()

    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return the messages that are not read, and the age of the oldest."""
        from mainstem_broker_nats.source.planning import begin
        from mainstem_broker_nats.source.ranges import check_created
        from mainstem_broker_nats.source.stream import age

        stream = self.open()
        try:
            offset = reached.offset
            if offset is None:
                offset = begin(stream, self.begin)
            else:
                check_created(stream.state(), offset["created"])
            read = int(offset["sequence"])
            rows = stream.waiting(read)
            oldest = stream.next(read + 1) if rows else None
            return [Lag(self.name, rows, age(oldest[1]) if oldest else 0.0)]
        finally:
            stream.close()

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> StreamLog:
        """Return this with another begin; see `Rewindable`."""
        other = copy.copy(self)
        other._rewound = True  # replays and previews have the same folder
        if isinstance(point, datetime) or point == "earliest":
            other.begin = point  # type: ignore[assignment]  # no other text gets here
            return other
        if isinstance(point, str):
            raise OptionError(
                f"a stream starts at `earliest`, at a time, or at an offset, not at {point!r}"
            )
        other.begin = self._offset(point)
        return other

    def _offset(self, point: Mapping[str, Any]) -> Mapping[str, Any]:
        """Hold an offset against the stream; one without `created` is of the stream there is."""
        sequence = point.get("sequence")
        unknown = set(point) - {"stream", "created", "sequence", "at", "after", "first"}
        if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 0 or unknown:
            raise OptionError(
                'expected an offset such as {"sequence": 42}: what comes after that sequence is read'
            )
        stream = self.open()
        try:
            state = stream.state()
        finally:
            stream.close()
        if point.get("stream", state.name) != state.name:
            raise OptionError(f"the offset is of the stream {point['stream']!r}")
        if point.get("created", state.created) != state.created:
            raise OptionError(
                f"the offset is of a stream made at {point['created']}, and this one was made at "
                f"{state.created}"
            )
        if sequence + 1 < state.first or sequence > state.last:
            raise OptionError(
                f"the stream {state.name!r} has the sequences {state.first} to {state.last}, and "
                f"{sequence + 1} was asked for"
            )
        return {"stream": state.name, "created": state.created, "sequence": sequence}

    def gone(self, since: Reached, *, superseded: bool = False) -> str:
        """Return what can't be read again; see `Rewindable`.

        Args:
            since: the point after which all is wanted.
            superseded: whether only the newest message of each subject counts.
        """
        stream = self.open()
        try:
            state = stream.state()
        finally:
            stream.close()
        read = int(since.offset["sequence"]) if since.offset else 0
        if since.offset and since.offset["created"] != state.created:
            return f"the stream {self.name}: it was made anew at {state.created}"
        if superseded:
            return ""
        parts = []
        if state.first > read + 1:
            parts.append(f"messages {read + 1} to {state.first - 1} of the stream {self.name}")
        if state.deleted:
            parts.append(f"{state.deleted} deleted messages among those that the stream still has")
        return ", ".join(parts)


class JetStreamSource(Source, Branching, Measurable, Rewindable):
    """Reads a stream by sequence, in parallel, and again when asked for."""

    options: JetStreamSourceOptions

    def __init__(self, options: JetStreamSourceOptions) -> None:
        super().__init__(options)
        self._log = StreamLog(options, options.stream, options.subjects, options.start)

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """A stream is a log: nothing is lost or doubled for as long as it keeps its messages."""
        goes_on = self.options.on_loss == "report"
        kept = "the stream keeps each message until the batch that reads it is done"
        told = "what it did not keep is counted, in the output `lost`"
        steady = (
            "no server falls back: one that loses power before it has synced (`sync_interval`, two "
            "minutes unless said otherwise), or is restored from a copy, gives sequences again. That is "
            "seen, and ends the run, while the stream ends before what was read, or has another message "
            "there"
        )
        return SourceCapabilities(
            ordered=True,
            lossy=goes_on,
            why="with `on_loss: report` messages that the stream no longer has are told in the output "
            "`lost`, and not waited for"
            if goes_on
            else "",
            assumptions=(
                f"{kept}; {told if goes_on else 'else the run fails'}",
                "publishers that retry give each message a Nats-Msg-Id",
                steady,
            ),
            shown=Shown(
                Level.AT_MOST_ONCE if goes_on else Level.EXACTLY_ONCE,
                "packages/broker-nats/tests/test_nats_jetstream_source_conformance.py",
            ),
        )

    def shape(self) -> Shape:
        return messages()

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        """What was gone before it was read comes out of `lost`, if it does not end the run."""
        return {"lost": LOST} if self.options.on_loss == "report" else {}

    def load(self, ctx: SourceContext) -> DataFrame:
        from mainstem_broker_nats.source.columns import GAP

        frame = ctx.read_planned(self._log.reading(ctx, "messages", self.options.on_loss))
        # Also where nobody reads `lost`: its rows are counted, and shown with the run.
        if self.options.on_loss != "report":
            return frame
        return split_lost(frame, ctx, f"CAST(headers['{GAP}'] AS STRING)", {})

    def end(self, home: Path) -> Mapping[str, str]:
        return self._log.end()

    def lag(self, reached: Reached) -> Sequence[Lag]:
        return self._log.lag(reached)

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> JetStreamSource:
        other = copy.copy(self)
        other._log = self._log.starting_at(point)
        return other

    def gone(self, since: Reached) -> str:
        return self._log.gone(since)
