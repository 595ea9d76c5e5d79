"""`aggregate` passes the standard tests of operators."""

from __future__ import annotations

from hypothesis import strategies as st
from mainstem_testkit.conformance.operator import OperatorSuite


class TestTumbling(OperatorSuite):
    use = "aggregate"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT"}
    event_time = {"input": "at"}
    window = {"on": "at", "tumbling": "10 minutes"}

    def options(self):
        columns = {"n": "sum(v)", "rows": "count(*)"}
        return {"by": ["k"], "window": self.window, "columns": columns}


class TestSession(OperatorSuite):
    use = "aggregate"
    inputs = TestTumbling.inputs
    event_time = TestTumbling.event_time

    def options(self):
        window = {"on": "at", "session": "5 minutes"}
        return {"by": ["k"], "window": window, "columns": {"n": "sum(v)"}}


class TestChanges(OperatorSuite):
    use = "aggregate"
    inputs = TestTumbling.inputs
    event_time = TestTumbling.event_time

    def options(self):
        return {
            "by": ["k"],
            "window": TestTumbling.window,
            "columns": {"n": "sum(v)"},
            "emit": "changes",
        }


class TestTotalsForEver(OperatorSuite):
    use = "aggregate"
    inputs = {"input": "k STRING, v INT"}

    def options(self):
        return {"by": ["k"], "columns": {"n": "sum(v)"}, "emit": "changes"}


class ByKey(OperatorSuite):
    """On state by key: with all that a total can be of."""

    use = "aggregate"
    inputs = TestTumbling.inputs
    event_time = TestTumbling.event_time
    window = TestTumbling.window
    more: dict = {}

    def options(self):
        columns = {
            "n": "sum(v)",
            "mean": "round(avg(v), 3)",
            "different": "count(DISTINCT v)",
            "rows": "count(*) FILTER (WHERE v > 0)",
            "last": "last(v)",
        }
        return {"by": ["k"], "window": self.window, "columns": columns, **self.more}


class TestLateness(ByKey):
    more = {"lateness": "7 minutes"}


class TestEarly(ByKey):
    more = {"emit": {"early": {"count": 2}, "late": "each"}, "lateness": "7 minutes"}


class TestIncrements(ByKey):
    more = {"emit": {"early": {"every": "4 minutes"}, "results": "increments"}}


class TestChangesByKey(ByKey):
    more = {"emit": "changes", "lateness": "0 seconds"}


class TestChangingSessions(ByKey):
    window = {"on": "at", "session": "5 minutes"}
    more = {"emit": "changes"}


class TestSliding(ByKey):
    window = {"on": "at", "sliding": "5 minutes"}


class TestCounted(ByKey):
    window = {"on": "at", "count": 3}


class TestSlidingCount(ByKey):
    window = {"on": "at", "count": 3, "slide": 2}


class TestTriggered(ByKey):
    #: One that counts to more may keep a row to itself for now.
    more = {"emit": {"early": {"count": 1}}}
    by_batch = ("pane", "pane_number")
    window = None


class TestDistinct(ByKey):
    more = {"emit": "changes"}
    window = None
    event_time = {}


class TestOfATable(OperatorSuite):
    use = "aggregate"
    inputs = {
        "input": {
            "columns": "id INT, k STRING, v DECIMAL(6,2), seq INT, gone BOOLEAN",
            "key": ["id"],
            "sequence": "seq",
            "delete": "gone",
        }
    }

    def options(self):
        columns = {
            "n": "count(*)",
            "mean": "avg(v)",
            "most": "max(v)",
            "different": "count(DISTINCT v)",
        }
        return {"by": ["k"], "columns": columns, "emit": "changes"}

    def examples(self, port):
        columns = {
            "id": st.integers(1, 3),
            "k": st.sampled_from(["a", "b", None]),
            "v": st.sampled_from([None, 1, 2.5]),
            "seq": st.none(),
            "gone": st.sampled_from([False, False, None, True]),
        }
        return st.fixed_dictionaries(columns)
