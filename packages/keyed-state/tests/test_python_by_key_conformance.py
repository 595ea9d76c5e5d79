"""`python_by_key` passes the standard tests of operators."""

from __future__ import annotations

from pathlib import Path

from mainstem_testkit.conformance.operator import OperatorSuite


class TestPythonByKey(OperatorSuite):
    use = "python_by_key"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT"}

    def options(self):
        return {
            "call": "functions:latest",
            "folder": str(Path(__file__).parent),
            "by": ["k"],
            "state": "count BIGINT, most INT",
            "schema": "k STRING, count BIGINT, most INT",
            "identity": ["k", "count"],
        }
