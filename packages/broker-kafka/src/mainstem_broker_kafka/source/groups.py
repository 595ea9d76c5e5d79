"""Publishes progress to a consumer group, for the tools that look there."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mainstem import PipelineError, failpoint

from mainstem_broker_kafka import client
from mainstem_broker_kafka.connection import librdkafka
from mainstem_broker_kafka.source.offsets import Places, places
from mainstem_broker_kafka.source.options import KafkaSourceOptions

if TYPE_CHECKING:
    from confluent_kafka import Consumer


class Group:
    """The consumer group of a source.

    Offsets are those of the checkpoint: a run that starts over, or was rolled back, sets the group back
    too. They are committed without being a member of the group, which Kafka takes while it has none.
    """

    def __init__(self, options: KafkaSourceOptions) -> None:
        self._options = options
        self._name = options.group or ""
        self._lock = threading.Lock()
        self._heard = client.Heard()
        self._consumer: Consumer | None = None
        self._published: Places = {}

    def publish(self, ends: Sequence[Any]) -> None:
        """Commit what all reads have behind them: of each partition the least offset.

        Args:
            ends: the offset of each read, as in the checkpoint; None for one that has read nothing.

        Raises:
            PipelineError: the brokers can't be reached, forbid it, or somebody consumes in the group.
        """
        found = least(ends)
        with self._lock:
            changed = {p: o for p, o in found.items() if self._published.get(p) != o}
            if not changed:
                return
            failpoint("kafka.before-publish")
            self._commit(changed)
            failpoint("kafka.after-publish")
            self._published |= changed

    def _commit(self, changed: Places) -> None:
        kafka = client.library()
        settings = librdkafka(self._options)
        doing = f"publishing offsets to the group {self._name!r}"
        if self._consumer is None:
            # Not the admin client's call for this: it ends the process if a broker goes meanwhile.
            patience = round(min(self._options.seconds, 60.0) * 1000)
            self._consumer = client.consumer(
                settings, self._heard, group_id=self._name, socket_timeout_ms=patience
            )
        wanted = [kafka.TopicPartition(p.topic, p.number, o) for p, o in sorted(changed.items())]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
            failed = next((each.error for each in done or () if each.error is not None), None)
            if failed is not None:
                raise client.raised(failed)
        except kafka.KafkaException as error:
            self.close()
            if client.code(error) in _OCCUPIED:
                raise PipelineError(
                    f"{doing} is refused: somebody consumes in it ({client.words(error)}). Its "
                    "offsets are this source's to tell; end that consumer, or name another `group`."
                ) from None
            raise client.failure(error, doing, settings, self._heard) from None

    def close(self) -> None:
        """Let go of the connections; they are made again when needed."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
        self._published = {}


def least(ends: Sequence[Mapping[str, Any] | None]) -> Places:
    """Return the least offset of each partition that all reads know."""
    if not ends or any(end is None for end in ends):
        return {}
    read = [places(end) for end in ends]
    common = set.intersection(*(set(each) for each in read))
    return {partition: min(each[partition] for each in read) for partition in common}


_OCCUPIED = (
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    "REBALANCE_IN_PROGRESS",
    "FENCED_INSTANCE_ID",
)
