"""The sink `pubsub` passes the standard tests of senders over Google's fake."""

from __future__ import annotations

import uuid

from mainstem_broker_pubsub.testing import PROJECT
from mainstem_testkit import SenderSuite


class TestSender(SenderSuite):
    use = "pubsub"
    server_fixture = "pubsub_afar"
    secrets = ("hunter2",)
    refused = {"headers": [("a", b"\xff")]}

    def prepare(self):
        self.name = f"numbers-{uuid.uuid4().hex}"
        topic = self.server.topic(self.name)
        self.subscription = self.server.subscription(
            self.name, topic, seconds=600, enable_message_ordering=True
        )

    def options(self):
        return {
            "project": PROJECT,
            "topic": self.name,
            "emulator": f"127.0.0.1:{self.port}",
            "connect_timeout": "2 s",
            "answer_timeout": "4 s",
            "give_up": "30 s",
        }

    def permanent(self):
        return {"a topic that is not there": {"topic": "nowhere"}}

    def received(self):
        found = []
        while came := self.server.pull(self.subscription):
            found += [int(each.message.data) for each in came]
        return found
