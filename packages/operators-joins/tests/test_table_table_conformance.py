"""`table_table_join` passes the standard tests of operators."""

from __future__ import annotations

from typing import Any, ClassVar

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

    def options(self):
        return {"foreign_key": "ref", "join": "left"}


class TestForeignKeyInner(TestForeignKey):
    def options(self):
        return {"foreign_key": "ref"}


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


class TestEqualKeysLeft(TestEqualKeys):
    join = "left"


class TestEqualKeysFull(TestEqualKeys):
    join = "full"
