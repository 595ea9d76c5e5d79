"""`stream_stream_join` passes the standard tests of operators, join by join."""

from __future__ import annotations

from mainstem_testkit.conformance.operator import OperatorSuite


class StreamStream(OperatorSuite):
    """Two streams of few keys, all within an hour: most rows find partners, some do not."""

    use = "stream_stream_join"
    inputs = {"left": "k INT, at TIMESTAMP, v INT", "right": "k INT, seen TIMESTAMP, w INT"}
    event_time = {"left": "at", "right": "seen"}
    join = "inner"
    unmatched = False
    late = False

    def options(self):
        return {
            "on": ["k"],
            "within": {"before": "10 minutes", "after": "30 minutes"},
            "join": self.join,
            "unmatched": self.unmatched,
            "late": self.late,
        }


class TestLeft(StreamStream):
    join = "left"


class TestInner(StreamStream):
    unmatched = True


class TestRight(StreamStream):
    join = "right"


class TestFull(StreamStream):
    join = "full"


class TestLate(StreamStream):
    unmatched = late = True


class TestLeftSemi(StreamStream):
    join = "left_semi"
