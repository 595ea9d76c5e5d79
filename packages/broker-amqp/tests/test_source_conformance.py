"""The source passes the standard tests over every kind of queue."""

from __future__ import annotations

import uuid

from amqp_queues import make_queue, publish
from mainstem_testkit.conformance.source import SourceSuite


class AMQPSuite(SourceSuite):
    use = "amqp"
    server_fixture = "rabbitmq"
    type = "classic"
    ids = "always"
    wrong_options = {
        "prefetch": {"prefetch": 0},
        "keep": {"keep": "a while"},
        "start": {"type": "classic", "start": "latest"},
    }

    def prepare(self):
        self.queue = make_queue(self.server, self.type, f"q-{uuid.uuid4()}")

    def options(self):
        return {
            "url": self.server.url,
            "queue": self.queue,
            "type": self.type,
            "ids": self.ids,
            "keep": "1 day",
        }

    def put(self, numbers):
        publish(self.server, self.queue, numbers, ids=self.ids == "always")

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1, "prefetch": 1}


class TestClassic(AMQPSuite):
    """A classic queue, whose messages have ids."""


class TestClassicWithoutIds(AMQPSuite):
    ids = "when_given"


class TestQuorum(AMQPSuite):
    type = "quorum"


class TestStream(AMQPSuite):
    type = "stream"
    ids = "never"
