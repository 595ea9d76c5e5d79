"""A column that is added above a table or a join is served: it is null in what was kept before."""

from __future__ import annotations

import pytest
from mainstem.errors import DocumentError

ROW, MORE = "id BIGINT, n BIGINT", "id BIGINT, n BIGINT, more STRING"
KEYED = {"key": ["id"], "sequence": "n"}


def changelog(of):
    return {"use": "changelog", "from": of, "with": KEYED, "on_rejected": "drop"}


CASES = {
    "table": {"t": {"use": "table", "from": "rows", "with": KEYED, "on_rejected": "drop"}},
    "table_table_join": {
        "left": changelog("rows"),
        "right": changelog("others"),
        "t": {
            "use": "table_table_join",
            "from": {"left": "left", "right": "right"},
            "with": {"on": ["id"], "join": "left", "take": ["name"]},
            "on_rejected": "drop",
        },
    },
    "foreign key": {
        "left": changelog("rows"),
        "right": changelog("others"),
        "t": {
            "use": "table_table_join",
            "from": {"left": "left", "right": "right"},
            "with": {"foreign_key": "id", "join": "left", "take": ["name"]},
            "on_rejected": "drop",
        },
    },
}


def document(pipeline, case, schema):
    """Write a document whose step `t` has the columns of a schema above it."""
    files = {"path": "./in", "format": "jsonlines"}
    others = {
        "path": "./others",
        "format": "jsonlines",
        "schema": "id BIGINT, name STRING, n BIGINT",
    }
    (pipeline.folder / "others").mkdir(exist_ok=True)
    sources = {"rows": {"use": "files", "with": {**files, "schema": schema}}}
    if case != "table":
        sources["others"] = {"use": "files", "with": others}
    pipeline.document(
        sources=sources, operators=CASES[case], sinks={"out": pipeline.sink("out", "t")}
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.in_turn
def test_a_column_that_is_added_is_null_in_what_was_kept(pipeline, spark, case):
    """Pass: an update tells the row as it was without it, and what comes new has it."""
    document(pipeline, case, ROW)
    pipeline.feed("1.jsonl", [{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    pipeline.run()
    document(pipeline, case, MORE)
    pipeline.feed("2.jsonl", [{"id": 1, "n": 2, "more": "x"}])
    pipeline.run()
    told = [
        (row["id"], row["_change_type"], row.get("more"))
        for row in pipeline.rows("out")
        if not (row["n"] == 1 and row["_change_type"] == "insert")
    ]
    assert sorted(told, key=str) == [
        (1, "update_postimage", "x"),
        (1, "update_preimage", None),
    ]


@pytest.mark.in_turn
def test_a_column_that_is_gone_is_refused(pipeline, spark):
    """Pass: what was kept has values in it that nobody would tell any more."""
    document(pipeline, "table", MORE)
    pipeline.feed("1.jsonl", [{"id": 1, "n": 1, "more": "x"}])
    pipeline.run()
    document(pipeline, "table", ROW)
    with pytest.raises(DocumentError, match="'t' had columns"):
        pipeline.run()
