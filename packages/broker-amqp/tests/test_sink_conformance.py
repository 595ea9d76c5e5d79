"""The sink `amqp` passes the standard tests."""

from __future__ import annotations

import hashlib

import pika
from mainstem_broker_amqp.properties import to_headers
from mainstem_testkit import SenderSuite, SinkSuite


class TestSender(SenderSuite):
    """A key is the routing key; one that has two words has no queue."""

    use = "amqp"
    server_fixture = "rabbitmq"
    refused = {"key": b"two.words"}
    secrets = ("hunter2",)

    def prepare(self):
        self.name = hashlib.sha256(str(self.place).encode()).hexdigest()[:16]
        with pika.BlockingConnection(pika.URLParameters(self.server.url)) as connection:
            channel = connection.channel()
            channel.exchange_declare(self.name, "topic", durable=True)
            channel.queue_declare(self.name, durable=True)
            channel.queue_bind(self.name, self.name, "*")
        self.server.sync()

    def options(self):
        return {"url": f"amqp://guest:guest@127.0.0.1:{self.port}/", "exchange": self.name}

    def received(self):
        found = []
        with pika.BlockingConnection(pika.URLParameters(self.server.url)) as connection:
            channel = connection.channel()
            while (got := channel.basic_get(self.name))[0] is not None:
                found.append(int(got[2] or 0))
        return found  # what was not acknowledged goes back into the queue

    def permanent(self):
        there = f"127.0.0.1:{self.port}"
        return {
            "a wrong password": {"url": f"amqp://guest:hunter2@{there}/"},
            "no such vhost": {"url": f"amqp://guest:guest@{there}/nowhere"},
            "no such exchange": {"exchange": "nowhere"},
            "another type of exchange": {"declare": {"type": "fanout"}},
        }


class AMQPSuite(SinkSuite):
    """Writes to an exchange of each test's own, and reads its queue without taking anything.

    The queue is bound for routing keys of one word, so a message whose key has two is returned.
    """

    use = "amqp"
    server_fixture = "rabbitmq"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": b"two.words", "value": b"refused"}
    kind_of_queue = "classic"
    wrong_options = {
        "in_flight": {"in_flight": 0},
        "partitions": {"partitions": 0},
        "url": {"url": "http://host"},
    }

    @property
    def name(self):
        return hashlib.sha256(str(self.place).encode()).hexdigest()[:16]

    def prepare(self):
        arguments = {"x-queue-type": self.kind_of_queue}
        with self.connected() as connection:
            channel = connection.channel()
            channel.exchange_declare(self.name, "topic", durable=True)
            channel.queue_declare(self.name, durable=True, arguments=arguments)
            channel.queue_bind(self.name, self.name, "*")

    def connected(self):
        return pika.BlockingConnection(pika.URLParameters(self.server.url))

    def options(self):
        return {"url": self.server.url, "exchange": self.name, "give_up": "5 seconds"}

    def rows(self, schema):
        found = []
        with self.connected() as connection:
            channel = connection.channel()
            while (got := channel.basic_get(self.name))[0] is not None:
                method, properties, body = got
                own = [
                    h for h in to_headers(properties) or () if not h[0].startswith(("amqp.", "x-"))
                ]
                row = {"key": method.routing_key.encode(), "value": body}
                found.append({**row, "headers": dict(own) or None})
        return found  # what was not acknowledged goes back into the queue


class TestClassic(AMQPSuite):
    """A classic queue."""


class TestQuorum(AMQPSuite):
    kind_of_queue = "quorum"
