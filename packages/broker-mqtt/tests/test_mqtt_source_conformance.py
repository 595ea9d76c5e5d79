"""The source `mqtt` passes the standard tests, with Spark and without."""

from __future__ import annotations

import uuid

from mainstem_testkit import ReceiverSuite, SourceSuite
from mqtt_clients import begin_session, publish


class Topics:
    use = "mqtt"
    server_fixture = "mosquitto"
    secrets = ("hunter2",)

    def prepare(self):
        self.topic = f"numbers-{uuid.uuid4()}"
        self.name = f"reads-{self.topic}"
        begin_session(self.server, self.name, f"{self.topic}/#")

    def options(self):
        return {
            "url": self.server.url,
            "topics": [f"{self.topic}/#"],
            "client_id": self.name,
            "connect_timeout": "3 s",
            "keep_alive": "2 s",
        }

    def put(self, numbers):
        publish(self.server, f"{self.topic}/a", [str(number) for number in numbers])


class TestReceiver(Topics, ReceiverSuite):
    pass


class TestSource(Topics, SourceSuite):
    wrong_options = {
        "topics": {"topics": []},
        "url": {"url": "http://there"},
        "share": {"receivers": 2},
    }

    def options(self):
        return {**super().options(), "keep": "1 day"}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1, "prefetch": 1}
