"""`table_table_join` passes the standard tests of operators."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from mainstem_testkit.conformance.operator import OperatorSuite


class TestForeignKey(OperatorSuite):
    use = "table_table_join"
    inputs: ClassVar[dict[str, Any]] = {
        "left": {
            "columns": "k INT, ref INT, v STRING, n BIGINT, gone BOOLEAN",
            "key": ["k"],
            "sequence": "n",
            "delete": "gone",
        },
        "right": {
            "columns": "id INT, name STRING, m BIGINT",
            "key": ["id"],
            "sequence": "m",
        },
    }

    # What follows random courses is shown by `table` in every run, and courses of joins by their own tests.
    slow_tests = frozenset(
        {
            "test_batches_partitions_and_restarts_do_not_show",
            "test_each_row_has_an_id_of_its_own_that_stays",
        }
    )

    def options(self):
        return {"foreign_key": "ref", "join": "left"}


@pytest.mark.slow
class TestForeignKeyInner(TestForeignKey):
    def options(self):
        return {"foreign_key": "ref"}


@pytest.mark.slow
class TestEqualKeys(OperatorSuite):
    use = "table_table_join"
    join = "inner"
    inputs: ClassVar[dict[str, Any]] = {
        "left": {
            "columns": "k STRING, v STRING, at TIMESTAMP, gone BOOLEAN",
            "key": ["k"],
            "sequence": "at",
            "delete": "gone",
        },
        "right": {
            "columns": "k STRING, w DECIMAL(10,2), n BIGINT",
            "key": ["k"],
            "sequence": "n",
        },
    }

    def options(self):
        return {"on": ["k"], "join": self.join}


@pytest.mark.slow
class TestEqualKeysLeft(TestEqualKeys):
    join = "left"


@pytest.mark.slow
class TestEqualKeysFull(TestEqualKeys):
    join = "full"
