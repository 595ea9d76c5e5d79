"""The sink `jetstream` passes the standard tests, by each of its strategies."""

from __future__ import annotations

import hashlib

from mainstem_testkit import SenderSuite, SinkSuite
from nsink_streams import make, read


class TestSender(SenderSuite):
    """A key is the end of the subject; as many messages of a subject are in flight as may be."""

    use = "jetstream"
    server_fixture = "nats"
    refused = {"key": b"two words"}
    secrets = ("hunter2",)

    def prepare(self):
        self.name = "n" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]
        make(self.server.url, self.name)

    def row(self, number):
        return {**super().row(number), "key": b"k%d" % (number % 3)}

    def options(self):
        return {
            "servers": f"nats://127.0.0.1:{self.port}",
            "stream": self.name,
            "subject": f"{self.name}.{{key}}",
            "answer_timeout": "2 seconds",
        }

    def received(self):
        return [int(message.data or 0) for message in read(self.server.url, self.name)]

    def permanent(self):
        return {
            "no such stream": {"stream": "nowhere"},
            "a credentials file that is not there": {"credentials": "/no/such/file"},
        }


class TestSenderInOrder(TestSender):
    """One message of a subject is in flight at a time."""

    def options(self):
        return {**super().options(), "order": "key"}


class JetStreamSuite(SinkSuite):
    """Writes to a stream of each test's own, and reads it without taking anything.

    A message's key is the end of its subject, so one with a space in it is refused.
    """

    use = "jetstream"
    server_fixture = "nats"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": b"two words", "value": b"refused"}
    wrong_options = {
        "in_flight": {"in_flight": 0},
        "partitions": {"partitions": 0},
        "subject": {"subject": "orders.{key"},
        "servers": {"servers": "http://host"},
    }
    storage = "file"

    @property
    def name(self):
        return "s" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]

    def prepare(self):
        make(self.server.url, self.name, storage=self.storage)

    def row(self, number):
        return {"key": b"k%d" % number, "value": b"%d" % number, "headers": {"n": b"%d" % number}}

    def options(self):
        return {
            "servers": self.server.url,
            "stream": self.name,
            "subject": f"{self.name}.{{key}}",
            "give_up": "5 seconds",
            "answer_timeout": "4 seconds",
        }

    def rows(self, schema):
        found = []
        for message in read(self.server.url, self.name):
            own = {k: v.encode() for k, v in message.headers.items() if not k.startswith("Nats-")}
            key = message.subject.partition(".")[2].encode()
            found.append({"key": key, "value": message.data, "headers": own or None})
        return found


class TestIdempotent(JetStreamSuite):
    deliver = "idempotent"


class TestMicrobatch(JetStreamSuite):
    deliver = "microbatch"


class TestOrdered(JetStreamSuite):
    """One message of a subject at a time; brought into order, for which rows need their positions."""

    columns = (
        "key BINARY, value BINARY, headers MAP<STRING, BINARY>, origin STRING, partition STRING, "
        "position STRING"
    )

    def row(self, number):
        place = {"origin": "o", "partition": "p", "position": f"{number:06}"}
        return {**super().row(number), **place}

    def options(self):
        return {**super().options(), "order": "log", "partitions": 2}

    def rows(self, schema):
        return [{**row, **self._place(row)} for row in super().rows(schema)]

    @staticmethod
    def _place(row):
        return {"origin": "o", "partition": "p", "position": f"{int(row['value']):06}"}


class TestMemory(JetStreamSuite):
    storage = "memory"
    expected_failures = {
        "test_an_external_system_that_is_down_fails_the_batch_until_it_is_back": (
            "a stream in memory is gone with its server"
        )
    }
