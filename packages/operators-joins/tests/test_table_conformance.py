"""`table` passes the standard tests of operators."""

from __future__ import annotations

import pytest
from mainstem_testkit.conformance.operator import OperatorSuite


class TestTable(OperatorSuite):
    use = "table"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT, seq INT"}
    event_time = {"input": "at"}
    growing = {"input": "seq"}

    # Of the two that follow random courses, one in every run.
    slow_tests = frozenset(
        {
            "test_each_row_has_an_id_of_its_own_that_stays",
        }
    )

    def options(self):
        return {"key": ["k"], "sequence": "seq", "delete": "v IS NULL", "deletes_within": "1 hour"}


@pytest.mark.slow
class TestTableWithHistory(OperatorSuite):
    use = "table"
    inputs = {"input": "k STRING, v INT, at TIMESTAMP, tags MAP<STRING, INT>"}
    growing = {"input": "at"}

    def options(self):
        return {"key": ["k"], "sequence": "at", "history": {"versions": 2}}
