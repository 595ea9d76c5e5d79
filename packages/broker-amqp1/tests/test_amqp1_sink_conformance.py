"""The sink `amqp1` passes the standard tests of senders; those of sinks are shown by others on egress."""

from __future__ import annotations

import uuid

from amqp1_clients import take
from mainstem_testkit import SenderSuite


class TestSender(SenderSuite):
    use = "amqp1"
    server_fixture = "artemis"
    secrets = ("hunter2",)
    refused = {"key": b"\xff"}

    def prepare(self):
        self.address = f"numbers-{uuid.uuid4().hex}"

    def options(self):
        return {
            "url": f"amqp://127.0.0.1:{self.port}",
            "address": self.address,
            "give_up": "30 s",
            "connect_timeout": "3 s",
            "idle_timeout": "3 s",
        }

    def permanent(self):
        return {"an address that is not there": {"address": "absent.queue"}}

    def received(self):
        return [int(bytes(each.body)) for each in take(self.server.url, self.address)]
