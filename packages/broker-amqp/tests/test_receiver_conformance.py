"""The receiver passes the standard tests over every kind of queue."""

from __future__ import annotations

import uuid

from amqp_queues import make_queue, messages, publish
from mainstem_testkit import ReceiverSuite


class AMQPSuite(ReceiverSuite):
    use = "amqp"
    server_fixture = "rabbitmq"
    type = "classic"
    ids = "always"

    def prepare(self):
        self.queue = make_queue(self.server, self.type, f"q-{uuid.uuid4()}")

    def options(self):
        given = {"url": self.server.url, "queue": self.queue, "type": self.type}
        return {**given, "ids": self.ids}

    def put(self, numbers):
        publish(self.server, self.queue, numbers, ids=self.ids == "always")

    def left(self):
        return None if self.type == "stream" else messages(self.server, self.queue)

    def permanent(self):
        wrong = self.server.url.replace("guest:guest", "guest:open-sesame")
        return {
            "a wrong password": {"url": wrong},
            "a queue that is not there": {"queue": "nowhere"},
        }


class TestClassic(AMQPSuite):
    pass


class TestClassicWithoutIds(AMQPSuite):
    ids = "when_given"

    def put(self, numbers):
        publish(self.server, self.queue, numbers)


class TestQuorum(AMQPSuite):
    type = "quorum"


class TestStream(AMQPSuite):
    type = "stream"
    ids = "never"
