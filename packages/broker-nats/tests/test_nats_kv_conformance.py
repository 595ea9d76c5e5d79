"""The source `nats_bucket` passes the standard tests of sources."""

from __future__ import annotations

from mainstem_testkit import SourceSuite
from nats.js.api import KeyValueConfig
from nats_streams import at, unique


class TestBucket(SourceSuite):
    use = "nats_bucket"
    server_fixture = "nats"
    wrong_options = {"bucket": {"bucket": "a.b"}, "keys": {"keys": ["a b"]}}
    # How a stream is read is the same as for `jetstream`.
    slow_tests = frozenset(
        {
            "test_memory_stays_flat_over_many_batches",
            "test_nothing_is_left_behind",
            "test_nothing_is_lost_or_doubled_by_a_kill_at_each_crash_point",
            "test_nothing_is_lost_or_doubled_over_stops",
            "test_nothing_is_lost_or_doubled_when_stopped_in_the_middle",
            "test_one_event_and_a_kill_while_idle",
            "test_a_batch_keeps_to_its_limit",
            "test_the_server_may_go_and_come_back",
        }
    )

    def prepare(self):
        self.bucket = unique("b")
        config = KeyValueConfig(bucket=self.bucket)
        at(self.server, lambda js, _: js.create_key_value(config))

    def options(self):
        return {"servers": self.server.url, "bucket": self.bucket, "give_up": "20 s"}

    def put(self, numbers):
        async def work(js, _):
            bucket = await js.key_value(self.bucket)
            for number in numbers:
                await bucket.put(f"key.{number}", str(number).encode())

        at(self.server, work)

    def limited(self, rows):
        return {"max_rows": rows}
