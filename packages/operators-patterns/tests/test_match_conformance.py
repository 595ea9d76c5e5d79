"""`match` passes the standard tests of operators."""

from __future__ import annotations

from hypothesis import strategies as st
from mainstem_testkit.conformance.operator import OperatorSuite


class Rows(OperatorSuite):
    """Rows with low and high numbers, so that there is something to find."""

    def examples(self, port):
        columns = {
            "k": st.sampled_from(["a", "a", None]),
            "at": st.sampled_from([f"2024-05-01T00:0{minute}:00Z" for minute in range(8)]),
            "v": st.sampled_from([0, 20, 70, 90, None]),
        }
        return st.fixed_dictionaries(columns)


class TestMatch(Rows):
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


class TestPatterns(Rows):
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
