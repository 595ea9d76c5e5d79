"""The sink passes the standard tests of sinks, with peers that stay: what ZeroMQ asks for."""

from __future__ import annotations

import json

import pytest
import zmq
from mainstem_testkit import SinkSuite
from zeromq_peers import Collector


class ZeroMQSuite(SinkSuite):
    """Sends to a bare socket of each place's own, which keeps what comes.

    A row is refused whose headers are no texts, for the layout has one frame for them all.
    """

    use = "zeromq"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": b"k", "value": b"refused", "headers": {"a": b"\xff"}}
    wrong_options = {
        "high_water_mark": {"high_water_mark": 0},
        "frames": {"frames": ["body"]},
        "bind": {"connect": [], "bind": "tcp://host"},
        "give_up": {"give_up": "0 s"},
    }
    kind = "sink"
    socket = "push"
    peer = zmq.PULL

    @pytest.fixture(autouse=True)
    def _collectors_end(self):
        yield
        for collector in self.collectors:
            collector.close()

    def prepare(self):
        self.collector = Collector(self.peer)
        self.collectors = [*getattr(self, "collectors", []), self.collector]

    def options(self):
        return {
            "socket": self.socket,
            "connect": self.collector.bind,
            "frames": ["key", "headers", "value"],
            "give_up": "10 seconds",
        }

    def rows(self, schema):
        return [
            {"key": key, "value": value, "headers": self.headers(headers)}
            for key, headers, value in self.collector.quiet()
        ]

    def headers(self, frame):
        return {name: text.encode() for name, text in json.loads(frame).items()} if frame else None


class TestPush(ZeroMQSuite):
    pass


class TestPub(ZeroMQSuite):
    socket = "pub"
    peer = zmq.SUB
