"""Three brokers in one document: a queue of RabbitMQ into a topic of Kafka into a stream of JetStream.

Each hop is made by another protocol: the queue is acknowledged after its messages are in the ingress log,
the topic is written by transactions, the stream knows messages by their ids.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
import uuid
from collections import Counter
from pathlib import Path

import nats as client
import pika
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from mainstem.plan.rendering import as_text
from nats.js.api import ConsumerConfig, StreamConfig

JARS = Path(__file__).parents[1] / ".tools/kafka/connector"


class Queue:
    """A durable queue, into which numbers are published until told to stop, each with itself as id."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.published, self.enough = 0, threading.Event()
        with self.connected() as connection:
            connection.channel().queue_declare(name, durable=True)

    def connected(self):
        return pika.BlockingConnection(pika.URLParameters(self.server.url))

    def publish(self):
        with self.connected() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not self.enough.wait(0.02):
                number = self.published
                properties = pika.BasicProperties(delivery_mode=2, message_id=str(number))
                channel.basic_publish("", self.name, b"%d" % number, properties, mandatory=True)
                self.published += 1

    def left(self):
        with self.connected() as connection:
            found = connection.channel().queue_declare(self.name, passive=True)
            return found.method.message_count


def in_stream(url, name):
    """Return the bodies that a stream has, in its order."""

    async def read():
        connection = await client.connect(url)
        stream = connection.jetstream()
        count = (await stream.stream_info(name)).state.messages
        config = ConsumerConfig(ack_policy="none")
        reading = await stream.pull_subscribe("", stream=name, config=config)
        found = []
        while len(found) < count:
            found += await reading.fetch(min(500, count - len(found)), timeout=10)
        await connection.close()
        return [message.data for message in found]

    return asyncio.run(read())


def make_stream(url, name):
    async def make():
        connection = await client.connect(url)
        config = StreamConfig(name=name, subjects=[f"{name}.>"], duplicate_window=3600)
        await connection.jetstream().add_stream(config)
        await connection.close()

    asyncio.run(make())


def in_topic(server, name):
    """Return what a topic's committed messages hold, by kcat: neither our client nor Spark's."""
    argv = [
        "kcat",
        "-b",
        server.url,
        "-q",
        "-C",
        "-t",
        name,
        "-o",
        "beginning",
        "-e",
        "-f",
        "%s\\n",
    ]
    argv += ["-X", "isolation.level=read_committed"]
    done = subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_message_goes_through_three_brokers_once(rabbitmq, kafka, nats, pipeline):
    """Pass: the plan promises exactly-once for both hops and says on what it rests; the run is killed with
    kill -9 while messages are on their way, started again, and ended: topic and stream have each message once,
    and the queue is empty."""
    name = f"hop{uuid.uuid4().hex[:12]}"
    queue = Queue(rabbitmq, name)
    admin = AdminClient({"bootstrap.servers": kafka.url})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    make_stream(nats.url, name)
    jobs = {"url": rabbitmq.url, "queue": name, "ids": "always"}
    connector = {"servers": kafka.url, "jars": str(JARS)}
    published = {"servers": nats.url, "stream": name, "subject": f"{name}.jobs"}
    published["duplicates_within"] = "1 hour"
    pipeline.document(
        trigger={"every": "500 ms"},
        require="exactly-once",
        sources={
            "jobs": {"use": "amqp", "with": jobs},
            "log": {"use": "kafka", "with": {**connector, "topics": [name]}},
        },
        sinks={
            "topic": {
                "use": "kafka",
                "from": "jobs",
                "deliver": "transactional",
                "with": {**connector, "topic": name},
            },
            "stream": {
                "use": "jetstream",
                "from": "log",
                "deliver": "idempotent",
                "with": published,
            },
            "bad": pipeline.sink("bad", "jobs.rejected"),
        },
    )
    plan = pipeline.plan()
    sinks = {sink.name: sink for sink in plan.sinks()}
    assert {sinks[hop].promise.level for hop in ("topic", "stream")} == {"exactly-once"}
    told = " ".join(as_text(plan).split())
    assert "stream: a batch that was cut is retried within 1 hour" in told

    publisher = threading.Thread(target=queue.publish)
    publisher.start()
    try:
        with pipeline.start() as process:
            process.wait_for(lambda: in_stream(nats.url, name), 120)
            process.kill()
        before = len(in_stream(nats.url, name))
        with pipeline.start() as process:
            process.wait_for(lambda: len(in_stream(nats.url, name)) > before, 120)
            queue.enough.set()
            publisher.join(60)
            process.wait_for(lambda: len(set(in_stream(nats.url, name))) == queue.published, 120)
            process.kill(signal.SIGTERM)
            assert process.wait().returncode == 0
    finally:
        queue.enough.set()
        publisher.join(60)
    assert before < queue.published, "it was through before it was killed"
    once = Counter(b"%d" % number for number in range(queue.published))
    assert Counter(in_topic(kafka, name)) == once
    assert Counter(in_stream(nats.url, name)) == once
    assert pipeline.rows("bad") == []
    assert queue.left() == 0
