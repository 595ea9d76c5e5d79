"""The source `pulsar` passes the standard tests of logs and of sources over a real broker."""

from __future__ import annotations

import uuid

from mainstem_testkit import PositionLogSuite, SourceSuite
from mainstem_testkit.pipelines import wait_for
from pulsar_clients import put


class Topics:
    use = "pulsar"
    server_fixture = "pulsar"
    secrets = ("hunter2",)
    partitions = 0
    batching = False

    def prepare(self):
        self.topic = f"numbers-{uuid.uuid4().hex}"
        self.path = f"persistent/public/default/{self.topic}"
        self.make()

    def make(self):
        if self.partitions:
            self.server.ask(f"{self.path}/partitions", "PUT", self.partitions)
        else:
            self.server.ask(self.path, "PUT")

    def options(self):
        return {
            "url": self.server.url,
            "admin_url": self.server.admin_url,
            "topic": self.topic,
            "connect_timeout": "3 s",
            "give_up": "60 s",
        }

    def put(self, numbers):
        numbers = list(numbers)
        put(self.server.url, self.topic, numbers[:4], batching=self.batching)
        self.next_ledger()
        put(self.server.url, self.topic, numbers[4:], batching=self.batching)

    def next_ledger(self):
        """Let what comes be in another ledger."""
        self.server.ask(f"{self.path}/unload", "PUT")


class TestLog(Topics, PositionLogSuite):
    """Each message is an entry; the first four are in a ledger of their own."""

    def remove(self, count):
        before = self.server.ask(f"{self.path}/internalStats")["ledgers"]
        self.server.ask(f"{self.path}/truncate", "DELETE")
        wait_for(
            lambda: self.server.ask(f"{self.path}/internalStats")["ledgers"][0] != before[0], 20
        )

    def make_anew(self):
        self.server.ask(f"{self.path}?force=true", "DELETE")
        self.make()


class TestBatches(Topics, PositionLogSuite):
    """Messages share entries."""

    batching = True


class TestPartitions(Topics, PositionLogSuite):
    partitions = 3

    def make_anew(self):
        self.server.ask(f"{self.path}/partitions?force=true", "DELETE")
        self.make()


class TestSource(Topics, SourceSuite):
    wrong_options = {
        "url": {"url": "http://there"},
        "admin_url": {"admin_url": "pulsar://there"},
        "start": {"start": "2026-01-01T00:00:00"},
        "topic": {"topic": "non-persistent://public/default/a"},
    }

    def limited(self, rows):
        return {"max_rows": rows}
