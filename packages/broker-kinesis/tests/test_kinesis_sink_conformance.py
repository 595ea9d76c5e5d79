"""The sink `kinesis` passes the standard tests, on both emulators of Kinesis."""

from __future__ import annotations

import hashlib

from ksisink_reading import KEYS, found
from mainstem_testkit import SinkSuite


class KinesisSinkSuite(SinkSuite):
    """Writes to a stream of each test's own, of three shards, on an emulator."""

    use = "kinesis"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": b"\xff is not UTF-8", "value": b"refused"}
    wrong_options = {
        "stream": {"stream": "no such name!"},
        "format": {"format": "avro"},
        "order": {"order": "some"},
        "max_record": {"max_record": "11 MiB"},
        "requests": {"requests": 0},
        "partitions": {"partitions": 0},
        "give_up": {"give_up": "0 seconds"},
    }

    @property
    def stream(self):
        return "s-" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]

    def prepare(self):
        names = self.server.call("ListStreams", Limit=1000)["StreamNames"]
        if self.stream not in names:
            self.server.create(self.stream, 3)

    def options(self):
        return {
            "stream": self.stream,
            "endpoint": self.server.url,
            **KEYS,
            "give_up": "30 seconds",
            "attempts": 1,
        }

    def rows(self, schema):
        return [
            {"key": m.key.encode(), "value": m.value, "headers": m.headers or None}
            for m in found(self.server, self.stream)
        ]


class TestPackedOnKinesalite(KinesisSinkSuite):
    server_fixture = "kinesalite_afar"


class TestPackedOnKinesisLocal(KinesisSinkSuite):
    server_fixture = "kinesis_local_afar"


class TestRawOnKinesalite(KinesisSinkSuite):
    server_fixture = "kinesalite_afar"
    columns = "key BINARY, value BINARY"

    def options(self):
        return {**super().options(), "format": "raw"}

    def rows(self, schema):
        return [{"key": m.key.encode(), "value": m.value} for m in found(self.server, self.stream)]
