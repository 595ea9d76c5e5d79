"""The source and its receiver pass the standard tests, as far as they ask anything of a lossy source."""

from __future__ import annotations

import pytest
from mainstem_testkit import ReceiverSuite, SourceSuite
from mainstem_testkit.conformance import _receiver
from udp_peers import Sender, free_port


class UDPMixin:
    use = "udp"

    @pytest.fixture(autouse=True)
    def _senders(self):
        self.made = []
        yield
        for each in self.made:
            each.close()

    def prepare(self):
        # A crash test moves on to another place: its sender is another one.
        self.port, self.sender = free_port(), None

    def options(self):
        return {"listen": f"127.0.0.1:{self.port}", "receive_buffer": "1 MiB", "keep": "1 day"}

    def put(self, numbers):
        if self.sender is None:
            self.sender = Sender(self.port)
            self.made.append(self.sender)
        self.sender.send_when_heard(b"%d" % number for number in numbers)


class TestReceiver(UDPMixin, ReceiverSuite):
    expected_failures = {
        "test_nothing_is_left_behind_after_closing": "it waits for the same message again and again, "
        "which a lossy source gives once"
    }

    @pytest.fixture(autouse=True)
    def _patience(self, request, monkeypatch):
        if request.node.name in self.expected_failures:
            monkeypatch.setattr(_receiver, "PATIENCE", 2.0)

    def permanent(self):
        return {
            "a port that is not for users, or an interface that is not there": {
                "groups": ["239.77.1.2"],
                "interface": "none0",
                "listen": f"0.0.0.0:{self.port}",
            }
        }


class TestSource(UDPMixin, SourceSuite):
    wrong_options = {
        "listen": {"listen": "everywhere"},
        "groups": {"groups": ["10.0.0.1"]},
        "max_datagram": {"max_datagram": 0},
    }

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1}
