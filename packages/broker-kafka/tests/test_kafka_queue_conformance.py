"""The source `kafka_queue` passes the standard tests over a real broker, with Spark and without."""

from __future__ import annotations

from confluent_kafka import Producer
from kafka_topics import Topics
from mainstem_testkit import ReceiverSuite, SourceSuite


class Groups:
    use = "kafka_queue"
    server_fixture = "kafka"
    secrets = ("hunter2",)
    #: Whether each message is a batch of its producer's.
    alone = False

    def prepare(self):
        self.topic = Topics(self.server).make()

    def options(self):
        return {
            "servers": self.server.url,
            "topics": [self.topic],
            "group": f"of-{self.topic}",
            "connect_timeout": "3 s",
            "answer_timeout": "8 s",
            "deliveries": 25,  # by default brokers drop what was given five times and not stored
        }

    def put(self, numbers):
        # In one batch unless `alone`; it is taken as a whole: none comes after it before it is acknowledged.
        producer = Producer({"bootstrap.servers": self.server.url, "linger.ms": 50})
        for number in numbers:
            producer.produce(self.topic, str(number), partition=0)
            if self.alone:
                producer.flush(20)
        assert producer.flush(20) == 0


class TestReceiver(Groups, ReceiverSuite):
    def permanent(self):
        return {"a topic that is not there": {"topics": ["absent"]}}


class TestSource(Groups, SourceSuite):
    wrong_options = {
        "servers": {"servers": "http://there"},
        "prefetch": {"prefetch": 0},
        "topics": {"topics": ["a b"]},
    }

    def options(self):
        return {**super().options(), "keep": "1 day"}

    def limited(self, rows):
        self.alone = True  # a batch is taken as a whole, whatever the limits
        return {"max_rows": rows, "segment_rows": 1, "prefetch": 1}
