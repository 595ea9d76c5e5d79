"""A row for which an expression of a table or a join fails is refused; the others go on."""

from __future__ import annotations

import json

import pytest

ROW = "id BIGINT, n BIGINT, ref STRING, gone STRING"
ROWS = [
    {"id": 1, "n": 1, "ref": "1", "gone": "false"},
    {"id": 2, "n": 1, "ref": "one", "gone": None},
    {"id": 3, "n": 1, "ref": "3", "gone": "perhaps"},
    {"id": 4, "n": 1, "ref": None, "gone": "false"},
]


def document(**operators):
    """Return a document of rows and customers, whose last step is read, with what it refuses."""
    files = {"use": "files", "with": {"path": "./in", "format": "jsonlines", "schema": ROW}}
    others = {**files["with"], "schema": "id INT, name STRING, n BIGINT"}
    last = list(operators)[-1]
    return {
        "pipeline": "refusing",
        "trigger": {"available_now": True},
        "sources": {"rows": files, "customers": {**files, "with": others}},
        "operators": operators,
        "sinks": {
            "out": {"use": "console", "from": last},
            "bad": {"use": "console", "from": f"{last}.rejected"},
        },
    }


def bad(pipeline):
    """Return the reasons by the ids of the refused rows."""
    return {json.loads(row["payload"])["id"]: row["reason"] for row in pipeline.rows("bad")}


@pytest.mark.parametrize("more", [{}, {"deletes_within": "1 hour", "sequence": "t"}])
@pytest.mark.in_turn
def test_a_table_refuses_rows_of_which_nobody_knows_whether_they_delete(trial, more):
    """Pass: with a deadline of deletions too, which has a reason of its own."""
    options = {"key": ["id"], "sequence": "n", "delete": "CAST(gone AS BOOLEAN)", **more}
    timed = {
        "use": "select",
        "from": "rows",
        "with": {"columns": {**{n: n for n in ("id", "n", "gone")}, "t": "current_timestamp()"}},
        "watermark": {"column": "t", "delay": "1 second", "ahead": "1 hour"},
    }
    table = {"use": "table", "from": "timed"}
    made = document(timed=timed, table={**table, "with": {**options, "on_error": "reject"}})
    pipeline = trial(made)
    pipeline.feed("rows", ROWS)
    pipeline.batch()
    assert sorted(row["id"] for row in pipeline.rows("out")) == [1, 2, 4]
    assert bad(pipeline) == {3: "delete fails: CAST(gone AS BOOLEAN)"}


@pytest.mark.parametrize("join", ["left", "inner"])
@pytest.mark.in_turn
def test_a_join_refuses_rows_whose_reference_it_cannot_compute(trial, join):
    """Pass: the others refer to what they mean, or to nothing; a deletion needs no reference."""
    orders = {
        "use": "changelog",
        "from": "rows",
        "with": {"key": ["id"], "sequence": "n", "delete": "gone = 'true'"},
        "on_rejected": "drop",
    }
    others = {**orders, "from": "customers", "with": {"key": ["id"], "sequence": "n"}}
    joined = {
        "use": "table_table_join",
        "from": {"left": "orders", "right": "others"},
        "with": {"foreign_key": "CAST(ref AS INT)", "join": join, "take": ["name"]},
    }
    joined["with"]["on_error"] = "reject"
    pipeline = trial(document(orders=orders, others=others, joined=joined))
    pipeline.feed("rows", [*ROWS, {"id": 5, "n": 1, "ref": "five", "gone": "true"}])
    pipeline.feed("customers", [{"id": 1, "name": "a", "n": 1}, {"id": 3, "name": "c", "n": 1}])
    pipeline.batch()
    found = {row["id"]: row["name"] for row in pipeline.rows("out")}
    assert found == {1: "a", 3: "c", **({4: None} if join == "left" else {})}
    assert bad(pipeline) == {2: "foreign_key fails: CAST(ref AS INT)"}
