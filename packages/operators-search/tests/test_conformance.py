"""The operator passes the standard tests."""

from __future__ import annotations

from hypothesis import strategies as st
from mainstem_testkit.conformance.operator import OperatorSuite


class TestPercolate(OperatorSuite):
    use = "percolate"
    inputs = {
        "input": "k STRING, v INT",
        "queries": {
            "columns": "id STRING, query STRING, seq INT, gone BOOLEAN",
            "key": ["id"],
            "sequence": "seq",
            "delete": "gone",
        },
    }

    def examples(self, port):
        if port == "input":
            return super().examples(port)
        columns = {
            "id": st.sampled_from(["p", "q"]),
            "query": st.sampled_from(["a", "NOT b", "v:>3", "k:(a OR b*)", "(", "nothing:here"]),
            "seq": st.integers(1, 9),
            "gone": st.booleans(),
        }
        return st.fixed_dictionaries(columns)
