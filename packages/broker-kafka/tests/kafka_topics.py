"""What tests do at a Kafka node themselves: make topics, write, read, trim."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

#: The jars of Spark's connector, for a pipeline in a process of its own.
JARS = str(
    next(p for p in Path(__file__).parents if (p / ".tools").exists()) / ".tools/kafka/connector"
)

_WAIT = 20.0


class Topics:
    """A node's topics.

    Args:
        server: the node.
        settings: those of a client, beside its address.
    """

    def __init__(self, server, **settings):
        self.server = server
        self.settings = {
            "bootstrap.servers": server.url,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }

    @cached_property
    def admin(self):
        return AdminClient(self.settings)

    def make(self, partitions=1, name="", **config):
        """Make a topic and return its name; `cleanup_policy="compact"` is `cleanup.policy`."""
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        made = self.admin.create_topics(
            [NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)]
        )
        made[name].result(_WAIT)
        return name

    def remove(self, topic):
        self.admin.delete_topics([topic])[topic].result(_WAIT)

    def grow(self, topic, partitions):
        """Give a topic more partitions."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_WAIT)

    def trim(self, topic, before, partition=0):
        """Remove what is before an offset, as retention does."""
        place = TopicPartition(topic, partition, before)
        for future in self.admin.delete_records([place]).values():
            future.result(_WAIT)

    def put(self, topic, values, partition=None, key=None, headers=None, timestamp=None):
        """Write messages in order; a value is text, bytes or None, `key` may be a function of it."""
        producer = Producer({**self.settings, "linger.ms": 1})
        failed = []
        for value in values:
            producer.produce(
                topic,
                value=value if value is None or isinstance(value, bytes) else str(value),
                key=key(value) if callable(key) else key,
                headers=headers,
                **({} if partition is None else {"partition": partition}),
                **({} if timestamp is None else {"timestamp": timestamp}),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert producer.flush(_WAIT) == 0
        assert not failed, failed

    def transaction(self, topic, values, *, abort=False, partition=None):
        """Write messages in a transaction, which is aborted or committed."""
        producer = Producer({**self.settings, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(_WAIT)
        producer.begin_transaction()
        more = {} if partition is None else {"partition": partition}
        for value in values:
            producer.produce(topic, value=str(value), **more)
        producer.flush(_WAIT)
        (producer.abort_transaction if abort else producer.commit_transaction)(_WAIT)

    @contextmanager
    def open_transaction(self, topic, values):
        """Keep a transaction with these messages open while the block runs; then abort it."""
        producer = Producer({**self.settings, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(_WAIT)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value=str(value))
        producer.flush(_WAIT)
        try:
            yield
        finally:
            producer.abort_transaction(_WAIT)

    def count(self, topic):
        """Return how many messages can be read of a topic's first partition."""
        reader = Consumer({**self.settings, "group.id": "counting", "enable.partition.eof": True})
        reader.assign([TopicPartition(topic, 0, 0)])
        found = 0
        try:
            while (message := reader.poll(_WAIT)) is not None and message.error() is None:
                found += 1
        finally:
            reader.close()
        return found

    def end(self, topic, partition=0, *, committed=True):
        """Return the offset after a partition's last message."""
        return self._offset(topic, partition, OffsetSpec.latest(), committed=committed)

    def beginning(self, topic, partition=0):
        """Return a partition's first offset that is still there."""
        return self._offset(topic, partition, OffsetSpec.earliest())

    def _offset(self, topic, partition, spec, *, committed=True):
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = self.admin.list_offsets(
            {TopicPartition(topic, partition): spec}, isolation_level=level
        )
        (future,) = asked.values()
        return future.result(_WAIT).offset

    def committed(self, group, topic, partition=0):
        """Return what a group has committed, or None."""
        consumer = Consumer({**self.settings, "group.id": group})
        try:
            (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=_WAIT)
        finally:
            consumer.close()
        return None if found.offset < 0 else found.offset

    def source(self, *names, **options):
        """Return a node's section in a document that reads topics."""
        given = {"servers": self.server.url, "jars": JARS, **options}
        if names:
            given["topics"] = list(names)
        return {"use": "kafka", "with": given}
