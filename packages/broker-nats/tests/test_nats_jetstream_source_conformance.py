"""The source `jetstream` passes the standard tests as a log."""

from __future__ import annotations

from typing import Any

import pytest
from mainstem_testkit import SourceSuite
from nats_streams import make_stream, publish


class LogSuite(SourceSuite):
    use = "jetstream"
    server_fixture = "nats"
    wrong_options = {
        "start": {"start": "yesterday"},
        "stream": {"stream": "a.b"},
        "subjects": {"subjects": ["a..b"]},
        "receivers": {"receivers": 2},
    }
    stream_config: dict[str, Any] = {}
    more: dict[str, Any] = {}

    def prepare(self):
        self.stream = make_stream(self.server, **self.stream_config)

    def options(self):
        return {"servers": self.server.url, "stream": self.stream, "patience": "20 s", **self.more}

    def put(self, numbers):
        publish(self.server, f"{self.stream}.numbers", numbers)

    def limited(self, rows):
        return {"max_rows": rows}


class TestLog(LogSuite):
    slow_tests = frozenset({"test_nothing_is_lost_or_doubled_by_a_kill_at_each_crash_point"})


@pytest.mark.slow
class TestFiltered(LogSuite):
    """Some subjects of several, with others between."""

    more = {"partitions": 3}

    def options(self):
        return {
            **super().options(),
            "subjects": [f"{self.stream}.numbers", f"{self.stream}.more.*"],
        }

    def put(self, numbers):
        for number in numbers:
            publish(self.server, f"{self.stream}.other", ["noise"])
            where = "numbers" if number % 2 else "more.there"
            publish(self.server, f"{self.stream}.{where}", [number])


@pytest.mark.slow
class TestInMemory(LogSuite):
    """Messages with headers, read in several tasks."""

    def put(self, numbers):
        publish(self.server, f"{self.stream}.numbers", numbers, {"trace": "a b", "empty": ""})
