"""A column that is added above a table or a join is served: it is null in what was kept before."""

from __future__ import annotations

import json

import pytest
from mainstem.errors import DocumentError
from mainstem_keyed_state.nodes import kept

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
    # What is kept is told with it; of the states of a join by reference that which goes by the left key.
    tables = kept(pipeline.plan(), "t", ["1"]).tables
    found = [row for rows in tables.values() for row in rows]
    assert found
    assert case == "foreign key" or any("x" in map(str, row.values()) for row in found)


@pytest.mark.in_turn
def test_a_column_that_is_gone_is_refused(pipeline, spark):
    """Pass: what was kept has values in it that nobody would tell any more."""
    document(pipeline, "table", MORE)
    pipeline.feed("1.jsonl", [{"id": 1, "n": 1, "more": "x"}])
    pipeline.run()
    document(pipeline, "table", ROW)
    with pytest.raises(DocumentError, match="'t' had columns"):
        pipeline.run()


def joined(pipeline, rows, more):
    """Write a document that joins events with the version of their time of a table, and waits for it."""
    times = {"column": "at", "delay": "1 minute", "ahead": "36500 days"}
    files = {"format": "jsonlines"}

    def source(folder, schema):
        (pipeline.folder / folder).mkdir(exist_ok=True)
        given = {**files, "path": f"./{folder}", "schema": schema}
        return {"use": "files", "with": given, "watermark": times, "on_rejected": "drop"}

    join = {"on": ["id"], "take": ["name", *(["more"] if more else [])]}
    pipeline.document(
        sources={
            "rows": source("in", f"id BIGINT, at TIMESTAMP{rows}"),
            "others": source("others", f"id BIGINT, at TIMESTAMP, name STRING{more}"),
        },
        operators={
            "table": {
                "use": "changelog",
                "from": "others",
                "with": {"key": ["id"], "sequence": "at"},
                "on_rejected": "drop",
            },
            "t": {
                "use": "stream_table_join",
                "from": {"stream": "rows", "table": "table"},
                "with": join,
                "on_rejected": "drop",
            },
        },
        sinks={"out": pipeline.sink("out", "t")},
    )


def tell(pipeline, folder, file, **row):
    hidden = pipeline.folder / folder / f".{file}"
    hidden.write_text(json.dumps(row) + "\n")
    hidden.rename(pipeline.folder / folder / file)


@pytest.mark.in_turn
def test_columns_that_are_added_beside_and_above_a_stream_table_join_are_served(pipeline, spark):
    """Pass: an event that waited, and a version that was kept, have nulls in them; new ones what they had."""
    joined(pipeline, "", "")
    tell(pipeline, "others", "1.json", id=1, at="2026-01-01T00:00:00Z", name="old")
    tell(pipeline, "in", "1.json", id=1, at="2026-01-01T00:10:00Z")
    pipeline.run()
    joined(pipeline, ", extra STRING", ", more STRING")
    tell(pipeline, "others", "2.json", id=2, at="2026-01-01T00:15:00Z", name="new", more="m")
    tell(pipeline, "in", "2.json", id=2, at="2026-01-01T00:20:00Z", extra="x")
    for minute in (40, 50):
        tell(pipeline, "others", f"{minute}.json", id=9, at=f"2026-01-01T00:{minute}:00Z", name="z")
        tell(pipeline, "in", f"{minute}.json", id=9, at=f"2026-01-01T00:{minute}:30Z")
        pipeline.run()
    found = {row["id"]: row for row in pipeline.rows("out") if row["id"] < 9}
    told = {n: (r["name"], r.get("more"), r.get("extra")) for n, r in found.items()}
    assert told == {1: ("old", None, None), 2: ("new", "m", "x")}
