"""The source `pubsub` passes the standard tests over Google's fake, with Spark and without."""

from __future__ import annotations

import uuid

from mainstem_broker_pubsub.testing import PROJECT
from mainstem_testkit import ReceiverSuite, SourceSuite


class Subscriptions:
    use = "pubsub"
    server_fixture = "pubsub_afar"
    secrets = ("hunter2",)
    ordering = False
    #: What somebody had who is gone comes again before that.
    quiet = 3.0

    def prepare(self):
        self.name = f"numbers-{uuid.uuid4().hex}"
        self.topic = self.server.topic(self.name)
        self.server.subscription(self.name, self.topic, enable_message_ordering=self.ordering)

    def options(self):
        return {
            "project": PROJECT,
            "subscription": self.name,
            "emulator": f"127.0.0.1:{self.server.port}",
            "lease": "2 s",
            "connect_timeout": "2 s",
            "answer_timeout": "4 s",
        }

    def put(self, numbers):
        self.server.publish(self.topic, [self.message(number) for number in numbers])

    def message(self, number):
        return {"data": b"%d" % number}


class TestReceiver(Subscriptions, ReceiverSuite):
    def permanent(self):
        return {"a subscription that is not there": {"subscription": "nowhere"}}


class TestOrdering(TestReceiver):
    """Messages of ordering keys."""

    ordering = True

    def message(self, number):
        return {"data": b"%d" % number, "ordering_key": f"k{number % 50}"}


class TestSource(Subscriptions, SourceSuite):
    wrong_options = {
        "subscription": {"subscription": "a/b"},
        "lease": {"lease": "11 minutes"},
        "prefetch": {"prefetch": 0},
    }

    def options(self):
        return {**super().options(), "keep": "1 day"}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1}
