"""The source `pulsar_queue` passes the standard tests over a real broker, with Spark and without."""

from __future__ import annotations

import uuid

from mainstem_testkit import ReceiverSuite, SourceSuite
from pulsar_clients import put


class Topics:
    use = "pulsar_queue"
    server_fixture = "pulsar"
    secrets = ("hunter2",)
    mode = "shared"

    def prepare(self):
        self.topic = f"numbers-{uuid.uuid4().hex}"

    def options(self):
        return {
            "url": self.server.url,
            "topic": self.topic,
            "subscription": "ours",
            "mode": self.mode,
            "connect_timeout": "3 s",
        }

    def put(self, numbers):
        put(self.server.url, self.topic, list(numbers))


class TestReceiver(Topics, ReceiverSuite):
    def left(self):
        path = f"persistent/public/default/{self.topic}/stats"
        return self.server.ask(path)["subscriptions"]["ours"]["msgBacklog"]

    def permanent(self):
        return {"a namespace that is not there": {"topic": "persistent://public/absent/numbers"}}


class TestKeyShared(TestReceiver):
    """Keys stay with their receivers."""

    mode = "key_shared"

    def put(self, numbers):
        put(self.server.url, self.topic, list(numbers), batching=False)


class TestSource(Topics, SourceSuite):
    wrong_options = {
        "url": {"url": "http://there"},
        "prefetch": {"prefetch": 0},
        "mode": {"mode": "some"},
    }

    def options(self):
        return {**super().options(), "keep": "1 day"}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1}
