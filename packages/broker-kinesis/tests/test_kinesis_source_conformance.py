"""The source passes the standard tests over both emulators of Kinesis; neither is AWS."""

from __future__ import annotations

import uuid

import pytest
from mainstem_testkit.conformance.source import SourceSuite


class KinesisSuite(SourceSuite):
    use = "kinesis"
    secrets = ("a-secret-key",)
    wrong_options = {
        "stream": {"stream": "no/stream"},
        "endpoint": {"endpoint": "localhost"},
        "start": {"start": "yesterday"},
        "poll_every": {"poll_every": "0 s"},
        "fetchers": {"fetchers": 0},
        "duplicates_within": {"ids": "when_given", "duplicates_within": "0 s"},
    }

    def prepare(self):
        self.stream = self.server.create(f"s-{uuid.uuid4().hex[:12]}", self.shards)

    shards = 1

    def options(self):
        return {
            "stream": self.stream,
            "endpoint": self.server.url,
            "region": "us-east-1",
            "access_key": "test",
            "secret_key": "a-secret-key",
            "keep": "1 day",
            "poll_every": "50 ms",
            "reads_per_second": 50,
        }

    def put(self, numbers):
        for number in numbers:
            self.server.put(self.stream, f"k{number % 7}", str(number).encode())

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1, "records_per_read": 1}


class TestKinesalite(KinesisSuite):
    server_fixture = "kinesalite_afar"
    # The first without Spark, in seconds: test_kinesis_source_crashes.py.
    slow_tests = frozenset(
        {
            "test_memory_stays_flat_over_many_batches",
            "test_nothing_is_left_behind",
            "test_nothing_is_lost_or_doubled_by_a_kill_at_each_crash_point",
            "test_nothing_is_lost_or_doubled_over_stops",
            "test_one_event_and_a_kill_while_idle",
            "test_positions_only_grow",
            "test_reading_can_begin_elsewhere",
            "test_the_server_may_go_and_come_back",
        }
    )


@pytest.mark.slow
class TestKinesisLocal(KinesisSuite):
    server_fixture = "kinesis_local_afar"


@pytest.mark.slow
class TestTwoShardsAndReceivers(KinesisSuite):
    server_fixture = "kinesis_local_afar"
    shards = 2

    def options(self):
        return {**super().options(), "receivers": 2}
