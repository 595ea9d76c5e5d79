"""The source `jetstream` passes the standard tests as a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mainstem_broker_nats.source.options import JetStreamSourceOptions
from mainstem_testkit import PositionLogSuite, SourceSuite
from nats_streams import at, info, make_stream, publish, reading


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
        planner = reading(options, options.partitions or 1).planner()
        try:
            start = planner.initial()
            return planner.parts(start, planner.latest(start))
        finally:
            planner.close()


class TestLog(LogSuite):
    """All subjects of a stream; these stand for all sources on a position log."""

    stands_for = "positions"


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


class TestPositions(PositionLogSuite):
    use = "jetstream"
    server_fixture = "nats"
    #: Changes to the options.
    more: ClassVar[Mapping[str, Any]] = {}

    def prepare(self):
        self.stream = make_stream(self.server)

    def options(self):
        return {"servers": self.server.url, "stream": self.stream, **self.more}

    def put(self, numbers):
        publish(self.server, f"{self.stream}.numbers", numbers)

    def remove(self, count):
        at(self.server, lambda js, _: js.purge_stream(self.stream, seq=count + 1))

    def make_anew(self):
        at(self.server, lambda js, _: js.delete_stream(self.stream))
        make_stream(self.server, self.stream)


class TestPositionsFiltered(TestPositions):
    """Some subjects, with messages of others between."""

    def options(self):
        return {**super().options(), "subjects": [f"{self.stream}.numbers"]}

    def put(self, numbers):
        for number in numbers:
            publish(self.server, f"{self.stream}.others", [number])
            publish(self.server, f"{self.stream}.numbers", [number])

    def remove(self, count):
        super().remove(2 * count)
