"""`stream_stream_join` passes the standard tests of operators, join by join."""

from __future__ import annotations

import pytest
from mainstem_testkit.conformance.operator import OperatorSuite


class StreamStream(OperatorSuite):
    """Two streams of few keys, all within an hour: most rows find partners, some do not."""

    use = "stream_stream_join"
    inputs = {"left": "k INT, at TIMESTAMP, v INT", "right": "k INT, seen TIMESTAMP, w INT"}
    event_time = {"left": "at", "right": "seen"}
    join = "inner"
    unmatched = False

    def options(self):
        return {
            "on": ["k"],
            "within": {"before": "10 minutes", "after": "30 minutes"},
            "join": self.join,
            "unmatched": self.unmatched,
        }


class TestLeft(StreamStream):
    join = "left"
    # Of the two that follow random courses, one in every run.
    slow_tests = frozenset(
        {
            "test_each_row_has_an_id_of_its_own_that_stays",
        }
    )


@pytest.mark.slow
class TestInner(StreamStream):
    unmatched = True


@pytest.mark.slow
class TestRight(StreamStream):
    join = "right"


@pytest.mark.slow
class TestFull(StreamStream):
    join = "full"


@pytest.mark.slow
class TestLeftSemi(StreamStream):
    join = "left_semi"
