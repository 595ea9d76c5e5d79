"""`sort`, `deduplicate` and `top` pass the standard tests of operators."""

from __future__ import annotations

from mainstem_testkit.conformance.operator import OperatorSuite


class TestSort(OperatorSuite):
    use = "sort"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT"}
    event_time = {"input": "at"}

    def options(self):
        return {"by": ["k"]}


class TestDeduplicate(OperatorSuite):
    use = "deduplicate"
    inputs = TestSort.inputs
    event_time = TestSort.event_time

    def options(self):
        return {"by": ["k"], "within": "10 minutes"}


class TestLast(OperatorSuite):
    use = "deduplicate"
    inputs = TestSort.inputs
    event_time = TestSort.event_time

    def options(self):
        return {"by": ["k"], "within": "10 minutes", "keep": "last"}


class TestTop(OperatorSuite):
    use = "top"
    inputs = TestSort.inputs

    def options(self):
        return {"by": ["k"], "order": ["v DESC", "at"], "n": 2}


class TestFinal(OperatorSuite):
    use = "top"
    inputs = TestSort.inputs
    event_time = TestSort.event_time

    def options(self):
        return {"by": ["at"], "order": ["v DESC NULLS FIRST"], "n": 1, "emit": "final"}


class TestTies(TestFinal):
    def options(self):
        return {**super().options(), "ties": True}


class TestRates(OperatorSuite):
    use = "rates"
    inputs = TestSort.inputs
    event_time = TestSort.event_time

    def options(self):
        columns = {"per_second": "rate", "usual": "mean", "odd": "zscore"}
        return {"by": ["k"], "value": "v", "half_life": "10 seconds", "columns": columns}


class TestClock(OperatorSuite):
    use = "clock"
    inputs = {"input": "k STRING, at TIMESTAMP, sent TIMESTAMP, received TIMESTAMP"}

    def options(self):
        times = {"event": "at", "sent": "sent", "received": "received"}
        return {"by": ["k"], **times, "half_life": "5 minutes"}


class TestSample(OperatorSuite):
    use = "sample"
    inputs = TestSort.inputs

    def options(self):
        return {"share": 0.5, "by": ["k"]}
