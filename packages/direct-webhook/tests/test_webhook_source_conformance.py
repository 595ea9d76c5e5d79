"""The receiver and the source pass the standard tests; the far side is a client that sends until 2xx."""

from __future__ import annotations

import pytest
from mainstem_testkit import ReceiverSuite
from mainstem_testkit.conformance.source import SourceSuite
from mainstem_testkit.server import free_port
from webhook_clients import Sender, wire


class WebhookWorld:
    """Options of a server, and the client that sends to it."""

    use = "webhook"
    secrets = ("open-sesame",)
    ids = "always"

    @pytest.fixture(autouse=True)
    def _ending(self):
        yield
        for sender in self.senders():
            sender.close()

    def senders(self):
        return self.__dict__.setdefault("_senders", [])

    def prepare(self):
        self.port = free_port()
        self.sender = Sender(self.port, self.request_of)
        self.senders().append(self.sender)

    def options(self):
        verify = {"use": "bearer", "token": "open-sesame"}
        return {"port": self.port, "ids": self.ids, "paths": {"/in": {"verify": verify}}}

    def request_of(self, number):
        headers = {"Authorization": "Bearer open-sesame"}
        if self.ids == "always":
            headers["webhook-id"] = f"m-{number}"
        return wire(body=b"%d" % number, headers=headers)

    def put(self, numbers):
        self.sender.send(numbers)

    def left(self):
        return self.sender.left


class WebhookReceiverSuite(WebhookWorld, ReceiverSuite):
    def permanent(self):
        files = {"certificate": str(self.place / "nowhere.pem")}
        return {
            "an address of another machine": {"host": "192.0.2.1"},
            "a certificate that is not there": {"tls": files},
        }


class TestReceiver(WebhookReceiverSuite):
    pass


class TestReceiverWithoutIds(WebhookReceiverSuite):
    ids = "when_given"


class WebhookSourceSuite(WebhookWorld, SourceSuite):
    wrong_options = {
        "port": {"port": 0},
        "status": {"status": 404},
        "duplicates_within": {"ids": "always", "duplicates_within": "0 s"},
    }

    def options(self):
        return {**super().options(), "keep": "1 day"}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1}


class TestSource(WebhookSourceSuite):
    """Requests with ids."""


class TestSourceWithoutIds(WebhookSourceSuite):
    ids = "when_given"
