"""Sink `mqtt`: publishes messages, each acknowledged by the server."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shape, Shown, SinkCapabilities
from mainstem.columns import Column, check_types, find_column
from mainstem_egress import EgressSink, Sender

from mainstem_broker_mqtt.options import MQTTOptions

_TEXT = ("binary", "string")
_TYPES = {"key": _TEXT, "value": _TEXT, "headers": ("map<string,binary>",)}
_SHOWN = "packages/broker-mqtt/tests/test_mqtt_sink_conformance.py"


class MQTTSink(EgressSink):
    """Publishes messages to topics; with version 5 each has its identity in `mainstem-id`.

    At least once: a batch that is retried, or a message whose answer was lost, is published again with
    the same identity. A reader that remembers them drops the copies.
    """

    options: MQTTOptions

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]  # options decide
        if not self.options.qos:
            return SinkCapabilities(
                needs_id=self.options.version == "5",
                lossy=True,
                why="with `qos: 0` nobody says whether a message arrived",
                shown={"microbatch": Shown(Level.NONE, _SHOWN)},
            )
        kept = "the server keeps what it has acknowledged for those who have subscribed"
        return SinkCapabilities(
            needs_id=self.options.version == "5",
            assumptions=(kept,),
            shown={"microbatch": Shown(Level.AT_LEAST_ONCE, _SHOWN)},
        )

    def sender(self) -> type[Sender]:
        from mainstem_broker_mqtt.sender import MQTTSender

        return MQTTSender

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        super().check_types(columns, shape)
        wanted = dict(_TYPES)
        if self.options.topic is None:
            column = self.options.topic_from
            find_column(columns, column, "topic_from", hint="Or name one for all: topic.")
            wanted[column.lower()] = _TEXT
        check_types(columns, wanted)
