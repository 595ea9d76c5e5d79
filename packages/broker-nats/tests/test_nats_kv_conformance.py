"""The source `nats_bucket` passes the standard tests of sources."""

from __future__ import annotations

from mainstem_testkit import SourceSuite
from nats.js.api import KeyValueConfig
from nats_streams import at, unique


class TestBucket(SourceSuite):
    use = "nats_bucket"
    server_fixture = "nats"
    wrong_options = {"bucket": {"bucket": "a.b"}, "keys": {"keys": ["a b"]}}

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
