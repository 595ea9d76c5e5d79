"""The source passes the standard tests over both emulators of Kinesis; neither is AWS."""

from __future__ import annotations

import uuid

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


class TestKinesisLocal(KinesisSuite):
    server_fixture = "kinesis_local_afar"


class TestTwoShardsAndReceivers(KinesisSuite):
    server_fixture = "kinesis_local_afar"
    shards = 2

    def options(self):
        return {**super().options(), "receivers": 2}
