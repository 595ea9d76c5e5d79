"""A source of the far side, as a plugin: the words `far_queue` and `far_stream`."""

from __future__ import annotations

from ingress_far import FarOptions, QueueReceiver, StreamReceiver
from mainstem import Source, SourceCapabilities, hookimpl
from mainstem_ingress import IngressSource, Receiver


class FarQueue(IngressSource):
    """Takes from the queue."""

    capabilities = SourceCapabilities(replayable=True)
    options: FarOptions

    def receiver(self) -> type[Receiver]:
        return QueueReceiver


class FarStream(FarQueue):
    """Takes from the stream."""

    def receiver(self) -> type[Receiver]:
        return StreamReceiver


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"far_queue": FarQueue, "far_stream": FarStream}
