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
    # Kills are shown without Spark, in seconds, by test_zeromq_crashes.py. How a log is read is the same
    # for all sources on it, and is shown of `amqp` in every run.
    slow_tests = frozenset(
        {
            "test_a_range_reads_the_same_three_times",
            "test_memory_stays_flat_over_many_batches",
            "test_nothing_is_left_behind",
            "test_nothing_is_lost_or_doubled_by_a_kill_at_each_crash_point",
            "test_nothing_is_lost_or_doubled_over_stops",
            "test_one_event_and_a_kill_while_idle",
            "test_positions_only_grow",
            "test_reading_can_begin_elsewhere",
        }
    )

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


@pytest.mark.slow
class TestSub(ZeroMQSuite):
    """The peer holds back what it has to say until somebody subscribes: else PUB would drop it."""

    wrong_options = {"receivers": {"receivers": 2}}

    def options(self):
        return {"socket": "sub", "bind": self.address, "keep": "1 day"}

    def put(self, numbers):
        self.peer = self.peer or self.peers.publisher(self.address)
        for number in numbers:
            self.peer.send(b"topic", b"%d" % number)
