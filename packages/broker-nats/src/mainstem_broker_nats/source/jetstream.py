"""Source `jetstream`: a stream, read as a log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mainstem import Level, Shape, Shown, SourceCapabilities, messages
from mainstem.positions import Begin, PositionSource

from mainstem_broker_nats.source.options import JetStreamSourceOptions

if TYPE_CHECKING:
    from mainstem.positions import PositionLog


class JetStreamSource(PositionSource):
    """Reads a stream by sequence, in parallel, and again when asked for."""

    options: JetStreamSourceOptions
    columns = (
        "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, origin STRING, "
        "partition STRING, position STRING"
    )

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

    def begin(self) -> Begin:
        return self.options.start

    def opener(self, node: str) -> Callable[[str], PositionLog]:
        from mainstem_broker_nats.source.log import StreamLog

        options = self.options
        return partial(
            StreamLog, options, options.stream, tuple(options.subjects), node, "messages"
        )
