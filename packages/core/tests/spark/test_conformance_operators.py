"""The built-in operators pass the standard tests of operators."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from mainstem_testkit.conformance.operator import OperatorSuite

PLAIN = "k STRING, v INT"
TABLE = {"columns": "k STRING, v INT, n BIGINT", "key": ["k"], "sequence": "n", "delete": "v = 2"}


class TestSelect(OperatorSuite):
    use = "select"
    inputs = {"input": PLAIN}

    def options(self):
        return {"columns": {"name": "upper(k)", "twice": "v * 2"}}


class TestSelectWhere(OperatorSuite):
    use = "select"
    inputs = {"input": PLAIN}

    def options(self):
        return {"where": "v > 0"}


class TestSelectOfAChangelog(OperatorSuite):
    use = "select"
    inputs = {"input": TABLE}

    def options(self):
        return {"columns": {"k": "k", "twice": "v * 2"}}


class TestSql(OperatorSuite):
    use = "sql"
    inputs = {"input": PLAIN}

    def options(self):
        query = "SELECT * EXCEPT (k, v), upper(k) AS name FROM input WHERE v > 0"
        return {"query": query, "schema": "name STRING", "row_wise": True}


class TestSqlOverTwoTables(OperatorSuite):
    use = "sql"
    inputs = {"one": "k STRING, n BIGINT", "two": "k STRING, n BIGINT"}
    growing = {"one": "n", "two": "n"}

    def options(self):
        query = "SELECT 1 AS t, n FROM one UNION ALL SELECT 2 AS t, n FROM two"
        return {
            "query": query,
            "schema": "t INT, n BIGINT",
            "tables": ["one", "two"],
            "identity": ["t", "n"],
        }


class TestPython(OperatorSuite):
    use = "python"
    inputs = {"input": PLAIN}

    def prepare(self):
        (self.place / "steps_of_a_test.py").write_text(
            "def double(rows, factor):\n    return rows.withColumn('v', rows.v * factor)\n"
        )

    def options(self):
        return {
            "call": "steps_of_a_test:double",
            "options": {"factor": 2},
            "folder": str(self.place),
            "schema": PLAIN,
            "row_wise": True,
        }


def messages(fitting: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Messages that fit a schema, and some that do not."""
    odd = st.sampled_from(["", "no json", "[1]", '{"k": 1', '{"k": "a", "v": "x"}', "{}", None])
    return st.fixed_dictionaries({"value": st.one_of(fitting, fitting, odd)})


class TestDecode(OperatorSuite):
    use = "decode"
    inputs = {"input": "messages"}

    def examples(self, port):
        row = st.fixed_dictionaries({"k": st.sampled_from("ab"), "v": st.integers(-9, 9)})
        return messages(row.map(json.dumps))

    def options(self):
        return {"format": "json", "schema": "k STRING NOT NULL, v INT", "keep": {"at": "timestamp"}}


class TestDecodeCsv(OperatorSuite):
    use = "decode"
    inputs = {"input": "messages"}

    def examples(self, port):
        return messages(st.sampled_from(["a,1", "b,", ",2", "a,x", "a,1,2"]))

    def options(self):
        return {"format": "csv", "schema": "k STRING, v INT"}


class TestDecodeWithoutASchema(OperatorSuite):
    use = "decode"
    inputs = {"input": "messages"}

    def examples(self, port):
        return messages(st.sampled_from(['{"a": 1}', "[1, 2]", "3"]))

    def options(self):
        return {"format": "json"}


class TestDecodeOfChanges(OperatorSuite):
    use = "decode"
    inputs = {"input": "messages"}

    def examples(self, port):
        row = st.fixed_dictionaries({"k": st.sampled_from("ab"), "at": st.integers(-9, 9)})
        image = st.none() | row
        envelope = st.fixed_dictionaries(
            {"op": st.sampled_from("crudt"), "before": image, "after": image}
        )
        return messages(envelope.map(json.dumps))

    def options(self):
        return {
            "format": "debezium-json",
            "schema": "k STRING NOT NULL, at TIMESTAMP",
            "key": ["k"],
            "keep": {"from": "origin"},
        }


class TestEncode(OperatorSuite):
    use = "encode"
    inputs = {"input": PLAIN}

    def options(self):
        headers, origin = {"kind": "k"}, "concat('t-', k)"
        kept = {"place": "k", "length": "length(k)"}
        return {"format": "json", "key": "k", "headers": headers, "origin": origin, "keep": kept}


class TestEncodeOfAChangelog(OperatorSuite):
    use = "encode"
    inputs = {"input": TABLE}

    def options(self):
        return {"format": "json", "key": "k"}


class TestEvents(OperatorSuite):
    use = "events"
    inputs = {"input": TABLE}

    def options(self):
        return {
            "kinds": ["insert", "update_postimage", "delete", "update_preimage"],
            "sequence": "seq",
        }


class TestUnion(OperatorSuite):
    use = "union"
    inputs = {"input": PLAIN}


class TestChangelog(OperatorSuite):
    use = "changelog"
    inputs = {"input": "k STRING, v INT, n BIGINT"}
    growing = {"input": "n"}

    def options(self):
        return {"key": ["k"], "sequence": "n", "delete": "v = 2"}
