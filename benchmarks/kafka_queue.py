"""A share group of Kafka, taken into durable segments, beside a bare loop of the same library.

A real broker, messages of 100 bytes in four partitions. The bare loop takes as many at a time, looks at
each message's value, key and place, and acknowledges it. Both join a group that has read nothing yet.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from beside import compare, store
from confluent_kafka import Producer, ShareConsumer
from mainstem.columns import read_columns
from mainstem_broker_kafka.client import Heard
from mainstem_broker_kafka.connection import librdkafka
from mainstem_broker_kafka.queue import group
from mainstem_broker_kafka.queue.options import KafkaQueueOptions
from mainstem_broker_kafka.queue.receiver import KafkaQueueReceiver
from mainstem_broker_kafka.queue.source import KafkaQueueSource
from mainstem_broker_kafka.testing import Kafka

MESSAGES, RUNS, PARTITIONS = 200_000, 3, 4
GROUPS = count()


def options(server: Kafka) -> KafkaQueueOptions:
    """Return the options of a group that has read nothing."""
    given = {"servers": server.url, "topics": ["jobs"], "group": f"g{next(GROUPS)}"}
    return KafkaQueueOptions.model_validate(given)


def main() -> None:
    """Run both, and print the ratio."""
    with tempfile.TemporaryDirectory() as folder, Kafka(Path(folder, "broker")) as server:
        server.create("jobs", PARTITIONS)
        producer = Producer(
            {"bootstrap.servers": server.url, "queue.buffering.max.messages": 10**6}
        )
        for number in range(MESSAGES):
            producer.produce("jobs", b"x" * 100, b"%d" % number)
        assert producer.flush(60) == 0

        def ours() -> None:
            given = options(server)
            columns = [(c.name, c.type or "") for c in read_columns(KafkaQueueSource.extra)]
            store(
                KafkaQueueReceiver(given, 0, "node"), Path(folder, given.group), MESSAGES, columns
            )

        def bare() -> None:
            given = options(server)
            group.set_up(given, librdkafka(given), Heard())
            settings: dict[str, Any] = {
                "bootstrap.servers": server.url,
                "group.id": given.group,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": given.prefetch,
                "log_level": 0,
            }
            consumer = ShareConsumer(settings)
            consumer.subscribe(["jobs"])
            found = 0
            while found < MESSAGES:
                for message in consumer.poll(1.0):
                    (message.value(), message.key(), message.offset(), message.timestamp())
                    consumer.acknowledge(message)
                    found += 1
                consumer.commit_async()
            consumer.close()

        ours()
        compare("source kafka_queue", MESSAGES, "messages", ours, bare, RUNS)


if __name__ == "__main__":
    sys.exit(main())
