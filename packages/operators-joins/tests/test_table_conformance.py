"""`table` passes the standard tests of operators."""

from __future__ import annotations

from mainstem_testkit.conformance.operator import OperatorSuite


class TestTable(OperatorSuite):
    stands_for = "keyed_state"
    use = "table"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT, seq INT"}
    event_time = {"input": "at"}
    growing = {"input": "seq"}

    def options(self):
        return {"key": ["k"], "sequence": "seq", "delete": "v IS NULL", "deletes_within": "1 hour"}


class TestTableWithHistory(OperatorSuite):
    use = "table"
    inputs = {"input": "k STRING, v INT, at TIMESTAMP, tags MAP<STRING, INT>"}
    growing = {"input": "at"}

    def options(self):
        return {"key": ["k"], "sequence": "at", "history": {"versions": 2}}
