"""Source `pulsar`: a topic, read as a log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mainstem import MESSAGE_COLUMNS, Events, Level, Shape, Shown, SourceCapabilities
from mainstem.columns import read_columns
from mainstem.positions import Begin, PositionSource

from mainstem_broker_pulsar.content import LOG_COLUMNS
from mainstem_broker_pulsar.options import PulsarSourceOptions

if TYPE_CHECKING:
    from mainstem.positions import PositionLog

IDENTITY = ("origin", "partition", "position")
_SHOWN = "packages/broker-pulsar/tests/test_pulsar_source_conformance.py"


class PulsarSource(PositionSource):
    """Reads a topic by ledger and entry, in parallel, and again when asked for."""

    options: PulsarSourceOptions
    columns = (
        "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, origin STRING, "
        f"partition STRING, position STRING, {LOG_COLUMNS}"
    )

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """A topic is a log: nothing is lost or doubled for as long as it keeps its messages."""
        options = self.options
        goes_on = options.on_loss == "report" and not options.compacted
        kept = "the topic keeps each message until the batch that reads it is done"
        if options.compacted:
            kept = "the newest message of a key is enough: what compaction leaves is read"
        elif goes_on:
            kept += "; what it did not keep is told, in the output `lost`"
        else:
            kept += "; else the run fails"
        return SourceCapabilities(
            ordered=True,
            lossy=goes_on,
            why="with `on_loss: report` messages that the topic no longer has are told in the output "
            "`lost`, and not waited for"
            if goes_on
            else "",
            assumptions=(kept, "senders that retry have deduplication"),
            shown=Shown(Level.AT_MOST_ONCE if goes_on else Level.EXACTLY_ONCE, _SHOWN),
        )

    def __init__(self, options: PulsarSourceOptions) -> None:
        super().__init__(options)
        self.superseded = options.compacted

    def shape(self) -> Shape:
        return Events([*MESSAGE_COLUMNS, *read_columns(LOG_COLUMNS)], identity=IDENTITY)

    def begin(self) -> Begin:
        return self.options.start

    def opener(self, node: str) -> Callable[[str], PositionLog]:
        from mainstem_broker_pulsar.log import TopicLog

        return partial(TopicLog, self.options, node)
