"""The source passes the standard tests of sources, as far as they ask anything of a lossy one."""

from __future__ import annotations

import pytest
from mainstem_testkit import SourceSuite
from zeromq_peers import Peers, address


class ZeroMQSuite(SourceSuite):
    use = "zeromq"
    wrong_options = {
        "high_water_mark": {"high_water_mark": 0},
        "frames": {"frames": ["body"]},
        "receivers": {"receivers": 2},
        "bind": {"bind": "udp://host:1"},
    }

    @pytest.fixture(autouse=True)
    def _peers(self):
        with Peers() as self.peers:
            self.peer = None
            yield

    def prepare(self):
        # A crash test moves on to another place: its peer is another one.
        self.address, self.peer = address(), None

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1}


class TestPull(ZeroMQSuite):
    def options(self):
        return {"bind": self.address, "keep": "1 day"}

    def put(self, numbers):
        self.peer = self.peer or self.peers.push(self.address)
        for number in numbers:
            self.peer.send(b"%d" % number)


class TestSub(ZeroMQSuite):
    """The peer holds back what it has to say until somebody subscribes: else PUB would drop it."""

    wrong_options = {"receivers": {"receivers": 2}}

    def options(self):
        return {"socket": "sub", "bind": self.address, "keep": "1 day"}

    def put(self, numbers):
        self.peer = self.peer or self.peers.publisher(self.address)
        for number in numbers:
            self.peer.send(b"topic", b"%d" % number)
