"""The sink `kafka` passes the standard tests, by each delivery strategy."""

from __future__ import annotations

import hashlib
from typing import ClassVar

from kafka_topics import JARS
from ksink_reading import make_topic, read_topic
from mainstem_testkit import SinkSuite


class KafkaSuite(SinkSuite):
    """Writes to a topic of each test's own, and reads what is committed with Debian's kcat.

    The topic takes no message above 20,000 bytes.
    """

    use = "kafka"
    server_fixture = "kafka"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": b"large", "value": b"x" * 30_000}
    wrong_options = {
        "servers": {"servers": "no port"},
        "topic": {"topic": "a b"},
        "topics": {"topic_from": "key", "topics": ["a b"]},
        "writers": {"writers": 65},
        "give_up": {"give_up": "0 seconds"},
        "transaction_timeout": {"transaction_timeout": "0 seconds"},
        "create": {"create": {"partitions": 0}},
        "ledger": {"ledger": "a b"},
    }
    partitions: ClassVar[int] = 3
    more: ClassVar[dict] = {}

    @property
    def name(self):
        return "t" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]

    def prepare(self):
        make_topic(self.server, self.name, self.partitions, {"max.message.bytes": "20000"})

    def options(self):
        return {
            "servers": self.server.url,
            "jars": JARS,
            "topic": self.name,
            "give_up": "5 seconds",
            "answer_timeout": "5 seconds",
            "ledger": f"{self.name}-ledger",  # the suite's tests all have one checkpoint
            **self.more,
        }

    def rows(self, schema):
        found = read_topic(self.server, self.name)
        return [{"key": m.key, "value": m.value, "headers": m.own_headers or None} for m in found]


class TestTransactional(KafkaSuite):
    deliver = "transactional"


class TestMicrobatch(KafkaSuite):
    deliver = "microbatch"


class TestTransactionalByFive(KafkaSuite):
    """More writers than partitions."""

    deliver = "transactional"
    more = {"writers": 5, "compression": "zstd"}


class TestTransactionalByOne(KafkaSuite):
    deliver = "transactional"
    more = {"writers": 1, "compression": "lz4"}
    partitions = 1
