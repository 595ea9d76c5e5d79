"""The sink `sqs` passes the standard tests of senders over an emulator."""

from __future__ import annotations

import uuid

from mainstem_broker_sqs.testing import CREDENTIALS
from mainstem_testkit import SenderSuite


class TestSender(SenderSuite):
    use = "sqs"
    server_fixture = "elasticmq_afar"
    secrets = ("hunter2",)
    refused = {"headers": [("AWS.x", b"1")]}
    expected_failures = {
        "test_messages_of_any_size_arrive": "a queue takes no more than 256 KiB, or what it says"
    }
    suffix = ""

    def prepare(self):
        self.name = f"numbers-{uuid.uuid4().hex}{self.suffix}"
        self.queue = self.server.queue(self.name)

    def options(self):
        return {
            "queue": self.name,
            "endpoint": f"http://127.0.0.1:{self.port}",
            "attempts": 1,
            "connect_timeout": "2 s",
            "answer_timeout": "4 s",
            "give_up": "30 s",
            **CREDENTIALS,
        }

    def permanent(self):
        return {"a queue that is not there": {"queue": "nowhere" + self.suffix}}

    def received(self):
        client, found = self.server.client(), []
        while True:
            said = client.receive_message(
                QueueUrl=self.queue, MaxNumberOfMessages=10, VisibilityTimeout=600
            )
            if not said.get("Messages"):
                return [int(each["Body"]) for each in found]
            found += said["Messages"]
            entries = [
                {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]}
                for n, each in enumerate(said["Messages"])
            ]
            client.delete_message_batch(QueueUrl=self.queue, Entries=entries)

    def test_messages_as_large_as_a_queue_takes_them_arrive(self):
        """As large as a queue takes them, beside small ones; larger than what is in flight may be."""
        large = {7: b"7".rjust(100_000, b" "), 11: b"11".rjust(250_000, b" ")}
        rows = [{**self.row(n), "value": large.get(n, b"%d" % n)} for n in range(20)]
        assert not self.send_rows(rows, in_flight_bytes=150_000)
        self.check(range(20), once=True)

    def check(self, numbers, *, once, ordered=True):
        """A standard queue keeps no order."""
        super().check(numbers, once=once, ordered=ordered and bool(self.suffix))


class TestFIFO(TestSender):
    suffix = ".fifo"
