"""The source `jetstream_queue` passes the standard tests, with Spark and without."""

from __future__ import annotations

from mainstem_testkit import ReceiverSuite, SourceSuite
from nats.js.api import AckPolicy, ConsumerConfig
from nats_streams import at, info, make_stream, publish, unique


class QueueMixin:
    use = "jetstream_queue"
    server_fixture = "nats"
    retention = "workqueue"

    def prepare(self):
        self.stream = make_stream(self.server, retention=self.retention)
        self.consumer = unique("c")
        # JetStream gives a message again when this time is over, and not when a connection ends.
        config = ConsumerConfig(
            durable_name=self.consumer, ack_policy=AckPolicy.EXPLICIT, ack_wait=0.3
        )
        at(self.server, lambda js, _: js.add_consumer(self.stream, config))

    def options(self):
        return {
            "servers": self.server.url,
            "stream": self.stream,
            "consumer": self.consumer,
        }

    def put(self, numbers):
        publish(self.server, f"{self.stream}.numbers", numbers)


class TestReceiver(QueueMixin, ReceiverSuite):
    def left(self):
        return info(self.server, self.stream).state.messages

    def permanent(self):
        other = make_stream(self.server)
        config = ConsumerConfig(durable_name="careless", ack_policy=AckPolicy.NONE)
        at(self.server, lambda js, _: js.add_consumer(other, config))
        return {
            "a stream that is not there": {"stream": "nowhere"},
            "a consumer that takes no acknowledgements": {"stream": other, "consumer": "careless"},
        }


class TestReceiverOfALog(QueueMixin, ReceiverSuite):
    """Of a stream that keeps what was acknowledged."""

    retention = "limits"


class TestQueue(QueueMixin, SourceSuite):
    wrong_options = {
        "consumer": {"consumer": "a.b"},
        "max_deliver": {"max_deliver": 0},
        "ack_wait": {"ack_wait": "10 ms"},
        "start": {"start": "latest"},
    }

    def options(self):
        return {**super().options(), "keep": "1 day"}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1, "prefetch": 1}
