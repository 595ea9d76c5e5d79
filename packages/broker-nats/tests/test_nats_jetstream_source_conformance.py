"""The source `jetstream` passes the standard tests as a log."""

from __future__ import annotations

from typing import Any

from mainstem_broker_nats.source.options import JetStreamSourceOptions
from mainstem_broker_nats.source.planning import StreamReading
from mainstem_testkit import SourceSuite
from nats_streams import info, make_stream, publish


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
        return {"servers": self.server.url, "stream": self.stream, "give_up": "20 s", **self.more}

    def put(self, numbers):
        publish(self.server, f"{self.stream}.numbers", numbers)

    def limited(self, rows):
        return {"max_rows": rows}

    def tasks(self):
        """Return what the tasks of a batch of ten messages read."""
        self.put(range(10))
        options = JetStreamSourceOptions.model_validate(self.options())
        planner = StreamReading(
            options,
            self.stream,
            tuple(options.subjects),
            options.start,
            options.partitions or 1,
            "t",
            "messages",
            options.on_loss,
        ).planner()
        try:
            start = planner.initial()
            return planner.parts(start, planner.latest(start))
        finally:
            planner.close()


class TestLog(LogSuite):
    """All subjects of a stream."""


class TestFiltered(LogSuite):
    """Some subjects of several, with others between."""

    more = {"partitions": 3, "rows_per_task": 1}

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

    def test_batches_are_read_by_several_tasks(self):
        """Pass: a batch as the other tests read them has three ranges."""
        assert len(self.tasks()) == 3


class TestInMemory(LogSuite):
    """Of a stream in memory, messages with headers, read in several tasks."""

    stream_config = {"storage": "memory"}
    more = {"partitions": 2, "rows_per_task": 1}
    expected_failures = {
        "test_the_server_may_go_and_come_back": "the stream is in memory, and gone with the server"
    }

    def test_batches_are_read_by_several_tasks(self):
        """Pass: a batch as the other tests read them has two ranges, and the stream is in memory."""
        assert len(self.tasks()) == 2
        assert info(self.server, self.stream).config.storage == "memory"

    def put(self, numbers):
        publish(self.server, f"{self.stream}.numbers", numbers, {"trace": "a b", "empty": ""})
