"""`match` passes the standard tests of operators."""

from __future__ import annotations

from hypothesis import strategies as st
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


class TestPatterns(OperatorSuite):
    use = "match_patterns"
    inputs = {
        "input": "k STRING, at TIMESTAMP, v INT",
        "patterns": {
            "columns": "id STRING, pattern STRING, seq INT, gone BOOLEAN",
            "key": ["id"],
            "sequence": "seq",
            "delete": "gone",
        },
    }
    event_time = {"input": "at"}

    def options(self):
        return {
            "by": ["k"],
            "define": {"low": "v < 50", "high": "v > 60 AND v >= avg(low.v)"},
            "within": "20 minutes",
            "measures": {"most": "max(v)"},
        }

    def examples(self, port):
        if port == "input":
            return super().examples(port)
        columns = {
            "id": st.sampled_from(["p", "q"]),
            "pattern": st.sampled_from(["low high", "low{1,2} ... high", "low ("]),
            "seq": st.none(),
            "gone": st.sampled_from([False, False, True]),
        }
        return st.fixed_dictionaries(columns)
