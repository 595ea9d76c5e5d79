"""The source `sqs` passes the standard tests over an emulator, with Spark and without."""

from __future__ import annotations

import uuid

import pytest
from mainstem_broker_sqs.testing import CREDENTIALS
from mainstem_testkit import ReceiverSuite, SourceSuite

_VARIABLES = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_DEFAULT_REGION",
}


class Queues:
    use = "sqs"
    server_fixture = "elasticmq_afar"
    secrets = ("hunter2",)
    suffix = ""
    #: What was in flight to somebody who is gone is seen again before that.
    quiet = 5.0

    def prepare(self):
        self.name = f"numbers-{uuid.uuid4().hex}{self.suffix}"
        self.queue = self.server.queue(self.name)

    def options(self):
        return {
            "queue": self.name,
            "endpoint": self.server.url,
            "visibility": "4 s",
            "wait": "1 s",
            "attempts": 1,
            "connect_timeout": "2 s",
            "answer_timeout": "4 s",
            **CREDENTIALS,
        }

    def put(self, numbers):
        client = self.server.client()
        numbers = list(numbers)
        for at in range(0, len(numbers), 10):
            entries = [
                {"Id": str(n), "MessageBody": str(number), **self.more(number)}
                for n, number in enumerate(numbers[at : at + 10])
            ]
            said = client.send_message_batch(QueueUrl=self.queue, Entries=entries)
            assert not said.get("Failed")

    def more(self, number):
        return {}


class TestReceiver(Queues, ReceiverSuite):
    def permanent(self):
        return {"a queue that is not there": {"queue": "nowhere"}}


class TestFIFO(TestReceiver):
    """A FIFO queue; credentials, region and server are found where AWS's library looks."""

    suffix = ".fifo"

    @pytest.fixture(autouse=True)
    def _found(self, elasticmq_afar, monkeypatch):
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(_VARIABLES[name], value)
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", elasticmq_afar.url)

    def options(self):
        left_out = {"endpoint", *CREDENTIALS}
        return {name: value for name, value in super().options().items() if name not in left_out}

    def more(self, number):
        return {"MessageGroupId": f"g{number % 50}", "MessageDeduplicationId": str(number)}


class TestSource(Queues, SourceSuite):
    wrong_options = {
        "queue": {"queue": "sqs://there"},
        "visibility": {"visibility": "13 hours"},
    }

    def options(self):
        return {**super().options(), "keep": "1 day"}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1}
