"""The source `amqp1` passes the standard tests over a real Artemis, with Spark and without."""

from __future__ import annotations

import uuid

from amqp1_clients import put
from mainstem_testkit import ReceiverSuite, SourceSuite


class Queues:
    use = "amqp1"
    server_fixture = "artemis"
    secrets = ("hunter2",)
    at = "queue"

    def prepare(self):
        self.address = f"numbers-{uuid.uuid4().hex}"

    def options(self):
        return {
            "url": self.server.url,
            "address": self.address,
            "ids": "always",
            "connect_timeout": "3 s",
            "idle_timeout": "3 s",
        }

    def put(self, numbers):
        put(self.server.url, self.address, list(numbers), self.at)


class TestReceiver(Queues, ReceiverSuite):
    def permanent(self):
        return {"an address that is not there": {"address": "absent.queue"}}


class TestSubscription(TestReceiver):
    """A durable subscription of a topic, which has what came once it was there."""

    at = "topic"

    def prepare(self):
        super().prepare()
        with self.taker() as taker:
            taker.connect()

    def options(self):
        mine = {"subscription": f"s-{self.address}", "client_id": self.address}
        return {**super().options(), **mine}


class TestSource(Queues, SourceSuite):
    wrong_options = {
        "url": {"url": "http://there"},
        "prefetch": {"prefetch": 0},
        "ids": {"ids": "sometimes"},
    }

    def options(self):
        return {**super().options(), "keep": "1 day"}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1}
