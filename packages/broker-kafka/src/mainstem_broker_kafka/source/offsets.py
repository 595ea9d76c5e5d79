"""What the brokers know of the topics that are read: partitions, where they begin and end, and when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mainstem import OptionError

from mainstem_broker_kafka import client
from mainstem_broker_kafka.connection import librdkafka

if TYPE_CHECKING:
    from mainstem_broker_kafka.queue.options import KafkaQueueOptions
    from mainstem_broker_kafka.source.options import KafkaSourceOptions


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


#: Offsets by partition; each is the next one to be read.
Places = dict[Partition, int]


def places(offset: Mapping[str, Mapping[Any, int]] | None) -> Places:
    """Return an offset of Spark's checkpoint by partition."""
    found = offset or {}
    return {Partition(t, int(n)): o for t, numbers in found.items() for n, o in numbers.items()}


def by_topic(found: Mapping[Partition, int]) -> dict[str, dict[int, int]]:
    """Return offsets by partition in the form of Spark's checkpoint."""
    made: dict[str, dict[int, int]] = {}
    for partition in sorted(found):
        made.setdefault(partition.topic, {})[partition.number] = found[partition]
    return made


#: The first time, in milliseconds, that has no number of microseconds in 64 bits.
_TOO_LATE = (2**63 - 1) // 1000 + 1


class Brokers:
    """Asks the brokers about what a source reads; each question has a client of its own.

    Args:
        options: the source's.
        patience: how long an answer may take, in seconds; the option `answer_timeout` when left out.
    """

    def __init__(
        self, options: KafkaSourceOptions | KafkaQueueOptions, patience: float | None = None
    ) -> None:
        self._options = options
        self._settings = librdkafka(options)
        self._patience = patience or options.seconds

    # -- topics -------------------------------------------------------------------------------

    def partitions(self) -> list[Partition]:
        """Return the partitions that are read now; of a pattern there may be none.

        Raises:
            OptionError: a topic or partition is not there.
            PipelineError: the brokers can't be asked.
        """
        o = self._options
        there = self._topics()
        found = []
        for name in sorted(self._matching(there)) if o.pattern else o.topics or o.assignment or ():
            if name not in there:
                near = f" There are: {', '.join(sorted(_shown(there)))}." if _shown(there) else ""
                message = f"there is no topic {name!r} at {self._settings.servers}.{near}"
                raise OptionError(message, option="topics" if o.topics else "assignment")
            numbers = set(there[name].partitions)
            for number in sorted(numbers) if o.assignment is None else o.assignment[name]:
                if number not in numbers:
                    message = (
                        f"topic {name!r} has no partition {number}, but {len(numbers)} of them"
                    )
                    raise OptionError(message, option="assignment")
                found.append(Partition(name, number))
        return found

    def partitions_left(self) -> list[Partition]:
        """Return the partitions that are read now, without those that are gone."""
        assigned = self._options.assignment
        there = self._topics()
        return [
            Partition(name, number)
            for name in self._matching(there)
            for number in there[name].partitions
            if assigned is None or number in assigned[name]
        ]

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the id that each topic got when it was made; those that are gone are left out."""
        return {name: str(found.topic_id) for name, found in self._described(topics).items()}

    def _matching(self, there: Iterable[str]) -> list[str]:
        """Return the topics that are read; a pattern has none of Kafka's own, as with Spark."""
        found = [name for name in there if self._options.names(name)]
        if self._options.pattern is None:
            return found
        doubtful = [name for name in found if name.startswith("__")]  # people name theirs so too
        internal = {n for n, topic in self._described(doubtful).items() if topic.is_internal}
        return [name for name in found if name not in internal]

    def _described(self, topics: Iterable[str]) -> dict[str, Any]:
        kafka = client.library()
        wanted = sorted(set(topics))
        if not wanted:
            return {}
        heard = client.Heard()
        found: dict[str, Any] = {}
        with client.asking(f"looking at {self._options.told}", self._settings, heard):
            asked_of = client.admin(self._settings, heard)  # answers end with it
            asked = asked_of.describe_topics(
                kafka.TopicCollection(wanted), request_timeout=self._patience
            )
            for topic, future in asked.items():
                try:
                    found[topic] = future.result()
                except kafka.KafkaException as error:
                    if client.code(error) not in GONE:
                        raise
        return found

    def _topics(self) -> Mapping[str, Any]:
        """Return all topics: asking for one by name may make it."""
        heard = client.Heard()
        with client.asking(f"looking for {self._options.told}", self._settings, heard):
            asked = client.admin(self._settings, heard)
            return dict(asked.list_topics(timeout=self._patience).topics)

    # -- offsets ------------------------------------------------------------------------------

    def beginnings(self, among: Iterable[Partition]) -> Places:
        """Return the first offset that is still there, by partition; those that are gone are left out."""
        return self._listed(among, lambda spec: spec.earliest())

    def ends(self, among: Iterable[Partition]) -> Places:
        """Return the offset after the last message that can be read, by partition.

        With `read_committed` that is where the first transaction that is still open begins.
        """
        return self._listed(among, lambda spec: spec.latest())

    def at(self, when: datetime, among: Iterable[Partition]) -> Places:
        """Return the offset of the first message since a time, by partition; the end if there is none."""
        known = list(among)
        since = int(when.timestamp() * 1000)
        found = self._listed(known, lambda spec: spec.for_timestamp(since))
        missing = [p for p, offset in found.items() if offset < 0]
        return found | (self.ends(missing) if missing else {})

    def unreadable(self, among: Iterable[Partition]) -> Places:
        """Return the first message, by partition, whose timestamp Spark's reader can't hold."""
        found = self._listed(among, lambda spec: spec.for_timestamp(_TOO_LATE))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def _listed(self, among: Iterable[Partition], spec: Callable[[Any], Any]) -> Places:
        kafka = client.library()
        wanted = {
            kafka.TopicPartition(p.topic, p.number): spec(kafka.admin.OffsetSpec) for p in among
        }
        if not wanted:
            return {}
        level = kafka.IsolationLevel[self._options.isolation.upper()]
        heard = client.Heard()
        found: Places = {}
        with client.asking(f"reading offsets of {self._options.told}", self._settings, heard):
            asked_of = client.admin(self._settings, heard)  # answers end with it
            asked = asked_of.list_offsets(
                wanted, isolation_level=level, request_timeout=self._patience
            )
            for partition, future in asked.items():
                try:
                    offset = future.result().offset
                except kafka.KafkaException as error:
                    if client.code(error) in GONE:
                        continue
                    raise
                found[Partition(partition.topic, partition.partition)] = offset
        return found

    # -- times --------------------------------------------------------------------------------

    def times(self, since: Places) -> dict[Partition, float | None]:
        """Return when the first message at or after an offset was written, by partition.

        In seconds since 1970; None for a partition that gives none: there is none, not in time, or none
        that can be.
        """
        kafka = client.library()
        found: dict[Partition, float | None] = dict.fromkeys(since)
        if not since:
            return found
        heard = client.Heard()
        reader = client.consumer(
            self._settings,
            heard,
            group_id="mainstem-lag",  # needed by the client; nothing is committed in it
            enable_partition_eof=True,
            isolation_level=self._options.isolation,
            auto_offset_reset="earliest",
            fetch_message_max_bytes=1024,  # one message, however large, is always given
            fetch_wait_max_ms=10,
            queued_max_messages_kbytes=1024,
        )
        left = set(since)
        until = time.monotonic() + self._patience
        try:
            with client.asking(f"reading {self._options.told}", self._settings, heard):
                reader.assign(
                    [kafka.TopicPartition(p.topic, p.number, o) for p, o in since.items()]
                )
                while left and (rest := until - time.monotonic()) > 0:
                    message = reader.poll(min(rest, 0.5))
                    if message is None:
                        continue
                    error = message.error()
                    if error is not None and error.name().startswith("GROUP_"):
                        continue  # nothing is done in the group, so it may be forbidden
                    partition = Partition(str(message.topic()), message.partition() or 0)
                    if error is not None and error.code() != kafka.KafkaError._PARTITION_EOF:
                        raise client.failure(
                            client.raised(error), f"reading {partition}", self._settings, heard
                        )
                    if partition not in left:
                        continue
                    left.discard(partition)
                    if error is None:
                        kind, millis = message.timestamp()
                        found[partition] = millis / 1000 if kind and millis < _TOO_LATE else None
                    reader.incremental_unassign([kafka.TopicPartition(*partition)])
        finally:
            reader.close()
        return found


#: What the client says of a topic or a partition that is no more.
GONE = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID")


def _shown(topics: Iterable[str]) -> list[str]:
    return [topic for topic in topics if not topic.startswith("__")][:20]
