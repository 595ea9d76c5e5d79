"""`match` passes the standard tests of operators."""

from __future__ import annotations

from mainstem_testkit.conformance.operator import OperatorSuite


class TestMatch(OperatorSuite):
    use = "match"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT"}
    event_time = {"input": "at"}

    def options(self):
        return {
            "by": ["k"],
            "pattern": "low{1,3} ... high",
            "define": {"low": "v < 50", "high": "v > low.v + 10 AND v >= avg(low.v)"},
            "within": "20 minutes",
            "measures": {"lows": "count(low)", "most": "max(v) - min(v)", "last": "high.v"},
        }


class TestAllRows(TestMatch):
    def options(self):
        return {
            **super().options(),
            "pattern": "low {- any? -} high !low within 5 minutes",
            "rows": "all",
            "skip": "to_next_row",
        }
