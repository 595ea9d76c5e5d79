"""Sink `zeromq`: hands messages to PULL or SUB sockets; nobody confirms that they arrived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem import (
    MESSAGES,
    Batch,
    Level,
    OptionError,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    Typed,
)
from mainstem.columns import Column, check_types, find_column
from mainstem.sinks import in_partitions, write_by_tasks

from mainstem_direct_zeromq.frames import Layout
from mainstem_direct_zeromq.sink.options import ZeroMQSinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TYPES = {
    "value": ("binary",), "key": ("binary",), "headers": ("map<string,binary>",),
}  # fmt: skip
_TEXT = ("string",)


class ZeroMQSink(Sink, Typed):
    """Sends messages to PULL or SUB sockets; nobody confirms them, so some can be lost, some doubled.

    A batch is written when all its messages have gone out to the network. When a peer crashes or a
    connection breaks, what waits for it or is in flight is lost; a batch that is retried is sent
    again.
    """

    options: ZeroMQSinkOptions
    accepts = MESSAGES

    def __init__(self, options: ZeroMQSinkOptions) -> None:
        super().__init__(options)
        self._layout = Layout(options.layout())
        if options.bind and options.partitions not in (None, 1):
            raise OptionError(
                "expected 1: only one socket can bind an address",
                option="partitions",
                hint="Let peers bind, and this side connect.",
            )
        if options.topic is not None and "topic" not in self._layout.names:
            raise OptionError("is there, but `frames` has no `topic`", option="topic")
        if "topic_from" in options.model_fields_set:
            if options.topic is not None:
                raise OptionError("is there beside `topic`, which goes first", option="topic_from")
            if "topic" not in self._layout.names:
                raise OptionError("is there, but `frames` has no `topic`", option="topic_from")
        if options.socket == "push":
            for name in ("when_full", "subscriptions"):
                if name in options.model_fields_set:
                    raise OptionError("is for `socket: pub`", option=name)

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]
        """It may lose, and how: ZeroMQ itself promises little."""
        mark = f"{self.options.high_water_mark:,}"
        lost = f"up to {mark} messages that wait for it are lost, and what is in flight"
        ways = [
            f"ZeroMQ has no acknowledgements: when a peer crashes or a connection breaks, {lost}"
        ]
        if self.options.socket == "pub":
            ways.append(
                "PUB sends to the subscribers that are there (it waits for "
                f"{self.options.subscriptions} subscriptions)"
            )
            if self.options.when_full == "drop":
                ways.append("and drops what one is too slow for (when_full: drop)")
        return SinkCapabilities(
            lossy=True, needs_id="id" in self._layout.names, why="; ".join(ways), shown=_SHOWN
        )

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the frames are made of."""
        for name in self._layout.needs:
            find_column(columns, name, "frames")
        wanted = {name: _TYPES[name] for name in self._layout.needs}
        if "topic" in self._layout.names and self.options.topic is None:
            column = self.options.topic_from
            find_column(columns, column, "topic_from", hint="Or give one for all: topic.")
            wanted[column.lower()] = _TEXT
        check_types(columns, wanted)

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Send a batch; return the rows that make no message."""
        parts = 1 if self.options.bind else self.options.partitions
        task = partial(_publish, options=self.options)
        return write_by_tasks(in_partitions(frame, parts), task)


_SHOWN = {
    "microbatch": Shown(Level.NONE, "packages/direct-zeromq/tests/test_zeromq_sink_conformance.py")
}


def _publish(batches: Any, options: ZeroMQSinkOptions) -> Iterator[Any]:
    from mainstem_direct_zeromq.sink.sender import publish

    return publish(batches, options)
