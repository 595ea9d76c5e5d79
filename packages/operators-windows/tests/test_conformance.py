"""`aggregate` passes the standard tests of operators."""

from __future__ import annotations

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
