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
    #: It claims nothing of a batch that is cut.
    slow_tests = frozenset(
        {
            "test_a_batch_written_again_is_evaluated_again",
            "test_a_batch_written_again_is_there_as_after_once",
            "test_a_kill_at_each_crash_point_does_no_harm",
            "test_an_empty_batch_changes_nothing",
            "test_batches_stand_beside_each_other",
            "test_the_rows_of_many_tasks_are_there_once",
            "test_two_sinks_of_one_query_stand_beside_each_other",
        }
    )
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


@pytest.mark.slow
class TestPub(ZeroMQSuite):
    socket = "pub"
    peer = zmq.SUB
