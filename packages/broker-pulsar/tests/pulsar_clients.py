"""Clients of the library itself, to send and take what tests want."""

from __future__ import annotations

from contextlib import contextmanager

import pulsar

SHARED = pulsar.ConsumerType.Shared
QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")


@contextmanager
def client(url, **more):
    made = pulsar.Client(url, logger=QUIET, **more)
    try:
        yield made
    finally:
        made.close()


def put(url, topic, numbers, *, batching=True, **more):
    """Send a message of each number."""
    with client(url) as made:
        producer = made.create_producer(
            topic, batching_enabled=batching, max_pending_messages=0, **more
        )
        told = []
        for number in numbers:
            producer.send_async(
                b"%d" % number,
                callback=lambda result, _: told.append(result),
                partition_key=f"key {number % 3}",
            )
        producer.flush()
        assert set(told) <= {pulsar.Result.Ok}


def read(url, topic):
    """Return all messages of a topic, partition by partition."""
    found = []
    with client(url) as made:
        for each in made.get_topic_partitions(topic):
            reader = made.create_reader(each, pulsar.MessageId.earliest)
            while reader.has_message_available():
                found.append(reader.read_next(5000))
    return found
