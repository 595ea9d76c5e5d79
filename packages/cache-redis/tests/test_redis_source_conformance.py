"""The source `redis` passes the standard tests, with Spark and without."""

from __future__ import annotations

import uuid

import redis
from mainstem_testkit import ReceiverSuite, SourceSuite


class Streams:
    use = "redis"
    server_fixture = "redis"
    secrets = ("hunter2",)

    def prepare(self):
        self.stream = f"numbers-{uuid.uuid4()}"

    def options(self):
        return {
            "url": self.server.url,
            "streams": [self.stream],
            "group": "readers",
            "value": "value",
            "answer_timeout": "3 s",
        }

    def put(self, numbers):
        with redis.Redis("127.0.0.1", self.server.port) as client, client.pipeline() as together:
            for number in numbers:
                together.xadd(self.stream, {"value": str(number)})
            together.execute()


class TestReceiver(Streams, ReceiverSuite):
    def left(self):
        with redis.Redis("127.0.0.1", self.server.port) as client:
            (group,) = client.xinfo_groups(self.stream)
            return group["pending"] + (group["lag"] or 0)

    def permanent(self):
        there = f"127.0.0.1:{self.server.port}"
        with redis.Redis("127.0.0.1", self.server.port) as client:
            client.set("text", "no stream")
        return {
            "a password where there is none": {"url": f"redis://:hunter2@{there}"},
            "a key that is no stream": {"streams": ["text"]},
            "no such database": {"url": f"redis://{there}/99"},
        }


class TestSource(Streams, SourceSuite):
    wrong_options = {
        "streams": {"streams": []},
        "claim_after": {"claim_after": "1 second"},
        "value": {"format": "messages", "value": "v"},
    }

    def options(self):
        return {**super().options(), "keep": "1 day"}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1, "prefetch": 1}
