"""The source `kafka` passes the standard tests: on a plain topic; with aborted transactions, on a
compacted topic, by a pattern over two topics, in uncommitted reading, with a group, by the second client."""

from __future__ import annotations

import hashlib

from kafka_topics import JARS, Topics
from mainstem_testkit import SourceSuite


class TopicSuite(SourceSuite):
    """Reads a topic of each test's own."""

    use = "kafka"
    server_fixture = "kafka"
    partitions = 1
    wrong_options = {
        "servers": {"servers": "no port"},
        "topics": {"topics": ["not a topic!"]},
        "start": {"start": "now"},
        "max_rows": {"max_rows": 0},
        "max_delay": {"max_delay": "1 minute"},
        "isolation": {"isolation": "serializable"},
        "kafka": {"kafka": {"bootstrap.servers": "elsewhere:9092"}},
        "sasl": {"sasl": {"mechanism": "PLAIN"}},
        "packages": {"packages": ["spark-sql-kafka"]},
    }

    @property
    def topic(self):
        return "t" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]

    @property
    def topics(self):
        return Topics(self.server)

    def prepare(self):
        self.topics.make(self.partitions, self.topic)

    def options(self):
        return {"servers": self.server.url, "topics": [self.topic], "jars": JARS}

    def put(self, numbers):
        self.topics.put(self.topic, numbers)

    def limited(self, rows):
        return {"max_rows": rows}


class TestTopic(TopicSuite):
    """A topic of one partition."""


class TestPartitions(TopicSuite):
    """A topic of three partitions, with a group, and headers left out."""

    partitions = 3

    def options(self):
        return {**super().options(), "group": f"{self.topic}-group", "headers": False}

    def put(self, numbers):
        for partition in range(3):
            self.topics.put(self.topic, [n for n in numbers if n % 3 == partition], partition)


class TestTransactions(TopicSuite):
    """What is written in transactions, with aborted ones between."""

    expected_failures = {
        "test_the_lag_is_what_was_not_read": "marks of transactions have offsets too, and Kafka's lag is "
        "told in offsets"
    }

    def put(self, numbers):
        self.topics.transaction(self.topic, [-n - 1 for n in numbers], abort=True)
        self.topics.transaction(self.topic, numbers)


class TestCompacted(TopicSuite):
    """A compacted topic whose cleaner is at work: each key comes once, so nothing is to be lost."""

    def prepare(self):
        self.topics.make(
            self.partitions,
            self.topic,
            cleanup_policy="compact",
            segment_ms=100,
            min_cleanable_dirty_ratio=0.0,
            max_compaction_lag_ms=100,
        )

    def put(self, numbers):
        self.topics.put(self.topic, numbers, key=str)


class TestPattern(TopicSuite):
    """Two topics by a pattern."""

    def prepare(self):
        for name in ("a", "b"):
            self.topics.make(1, f"{self.topic}-{name}")

    def options(self):
        given = {k: v for k, v in super().options().items() if k != "topics"}
        return {**given, "pattern": f"{self.topic}-[ab]"}

    def put(self, numbers):
        self.topics.put(f"{self.topic}-a", [n for n in numbers if n % 2])
        self.topics.put(f"{self.topic}-b", [n for n in numbers if not n % 2])


class TestUncommitted(TopicSuite):
    """One partition, assigned, read uncommitted, and cut among tasks."""

    def options(self):
        given = {k: v for k, v in super().options().items() if k != "topics"}
        return {
            **given,
            "assignment": {self.topic: [0]},
            "isolation": "read_uncommitted",
            "min_partitions": 2,
        }


class TestGoesOn(TopicSuite):
    """Going on over what is lost, which is watched by a stream of its own."""

    def options(self):
        return {**super().options(), "on_loss": "report"}


class TestSecondClient(TopicSuite):
    """Messages whose times Spark's reader can't hold: the second client reads them."""

    expected_failures = {
        "test_rows_are_as_announced": "a time that no column can hold is null",
        "test_reading_can_begin_elsewhere": "such times are after every time that one can begin at",
    }

    def prepare(self):
        self.topics.make(
            self.partitions, self.topic, retention_ms=-1, message_timestamp_after_max_ms=2**63 - 1
        )

    def put(self, numbers):
        self.topics.put(self.topic, numbers, timestamp=1_711_848_600_000_000_000)
