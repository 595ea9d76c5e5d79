"""Source `mqtt`: topics of MQTT, through a persistent session and the ingress log."""

from __future__ import annotations

from mainstem import Level, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_broker_mqtt.options import MQTTSourceOptions

_SHOWN = "packages/broker-mqtt/tests/test_mqtt_source_conformance.py"


class MQTTSource(IngressSource):
    """Takes messages of a persistent session; acknowledges what is safe on disk."""

    options: MQTTSourceOptions
    extra = "retained BOOLEAN"
    loses = True

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Nothing that the server keeps is lost; a message that comes again is known by its packet id."""
        options = self.options
        if not options.qos:
            return SourceCapabilities(
                lossy=True,
                ordered=options.receivers == 1,
                why="with `qos: 0` nobody sends a message again: what comes while nobody listens, and "
                "what was taken and not stored when a process is killed, is lost",
                shown=Shown(Level.AT_MOST_ONCE, _SHOWN),
            )
        return SourceCapabilities(
            ordered=options.receivers == 1 and options.share is None,
            assumptions=(
                "the disk keeps what it says it has written",
                (
                    "the server keeps the session and all that it has queued, also over its own restarts "
                    "(a session that is gone comes out of `lost`; what its limits drop nobody tells)"
                ),
                (
                    "the server gives packet ids in turn, as the usual ones do, and has no more than "
                    "`prefetch` messages in flight"
                ),
                "who publishes does so with QoS 1 or 2, and sends no copies",
            ),
            shown=Shown(Level.EXACTLY_ONCE, _SHOWN),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_mqtt.receiver import MQTTReceiver

        return MQTTReceiver
