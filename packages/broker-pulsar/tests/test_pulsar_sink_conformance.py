"""The sink `pulsar` passes the standard tests of senders and of sinks, by numbers and without."""

from __future__ import annotations

import uuid

from mainstem_testkit import SenderSuite, SinkSuite
from pulsar_clients import read


class Topics:
    use = "pulsar"
    server_fixture = "pulsar"
    secrets = ("hunter2",)

    def prepare(self):
        self.topic = f"numbers-{uuid.uuid4().hex}"


class TestSender(Topics, SenderSuite):
    refused = {"key": b"\xff"}

    def options(self):
        through = self.port != self.server.port
        return {
            "url": f"pulsar://127.0.0.1:{self.port}",
            "topic": self.topic,
            "give_up": "30 s",
            "connect_timeout": "2 s",
            **({"listener": "through"} if through else {}),
        }

    def permanent(self):
        return {"a namespace that is not there": {"topic": "persistent://public/absent/numbers"}}

    def received(self):
        return [int(each.data()) for each in read(self.server.url, self.topic)]


class PulsarSuite(Topics, SinkSuite):
    columns = "key STRING, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": "k", "value": b"refused", "headers": {"n": b"\xff"}}
    wrong_options = {
        "in_flight": {"in_flight": 0},
        "producers": {"producers": 0},
        "topic": {"topic": "a b"},
        "url": {"url": "http://host"},
    }

    def row(self, number):
        return {"key": f"k{number % 5}", "value": b"%d" % number, "headers": {"n": b"%d" % number}}

    def options(self):
        return {
            "url": self.server.url,
            "topic": self.topic,
            "give_up": "4 seconds",
            "answer_timeout": "4 seconds",
            "connect_timeout": "2 seconds",
        }

    def rows(self, schema):
        found = []
        for message in read(self.server.url, self.topic):
            own = {k: v.encode() for k, v in message.properties().items() if k != "mainstem-id"}
            key = message.partition_key() or None
            found.append({"key": key, "value": message.data(), "headers": own or None})
        return found


class TestNumbered(PulsarSuite):
    deliver = "numbered"


class TestMicrobatch(PulsarSuite):
    deliver = "microbatch"
