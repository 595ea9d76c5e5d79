"""The sink `nats` passes the standard tests, before a reader who listens all the time."""

from __future__ import annotations

import hashlib

import pytest
from mainstem_testkit import SenderSuite, SinkSuite
from nsink_streams import Listener


class TestSender(SenderSuite):
    """A reader listens all the time; a key is the end of the subject."""

    use = "nats"
    server_fixture = "nats"
    refused = {"key": b"two words"}

    @pytest.fixture(autouse=True)
    def _listener_ends(self):
        yield
        self.listener.close()

    def prepare(self):
        self.name = "s" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]
        self.listener = Listener(self.server.url, f"{self.name}.>")
        self.seen = []

    def row(self, number):
        return {**super().row(number), "key": b"k%d" % (number % 3)}

    def options(self):
        return {
            "servers": f"nats://127.0.0.1:{self.port}",
            "subject": f"{self.name}.{{key}}",
            "answer_timeout": "2 seconds",
        }

    def received(self):
        self.seen = [int(message.data or 0) for message in self.listener.quiet()]
        return self.seen

    def permanent(self):
        return {"a credentials file that is not there": {"credentials": "/no/such/file"}}


class TestCore(SinkSuite):
    """A message's key is the end of its subject, so one with a space in it is refused."""

    use = "nats"
    server_fixture = "nats"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": b"two words", "value": b"refused"}
    wrong_options = {
        "in_flight": {"in_flight": 0},
        "partitions": {"partitions": 0},
        "subject": {"subject": "a..b"},
        "servers": {"servers": "http://host"},
    }

    @pytest.fixture(autouse=True)
    def _listeners_end(self):
        yield
        for listener in self.listeners.values():
            listener.close()

    @property
    def name(self):
        return "c" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]

    def prepare(self):
        made = Listener(self.server.url, f"{self.name}.>")
        self.listeners = {**getattr(self, "listeners", {}), self.name: made}

    def row(self, number):
        return {"key": b"k%d" % number, "value": b"%d" % number, "headers": {"n": b"%d" % number}}

    def options(self):
        return {
            "servers": self.server.url,
            "subject": f"{self.name}.{{key}}",
            "give_up": "5 seconds",
            "answer_timeout": "4 seconds",
        }

    def rows(self, schema):
        return [
            {
                "key": message.subject.partition(".")[2].encode(),
                "value": message.data,
                "headers": {k: v.encode() for k, v in (message.headers or {}).items()} or None,
            }
            for message in self.listeners[self.name].quiet()
        ]
