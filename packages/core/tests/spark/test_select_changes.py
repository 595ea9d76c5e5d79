"""`select: where` on a changelog: a table below holds the rows that meet the condition, and no others."""

from __future__ import annotations

import json

import pytest
from mainstem.plan.build import make_plan

SCHEMA = "id INT NOT NULL, status STRING, cents INT"
STORY = [
    (None, {"id": 1, "status": "open", "cents": 0}),
    (None, {"id": 2, "status": "closed", "cents": 5}),
    ({"id": 1, "status": "open", "cents": 0}, {"id": 1, "status": "closed", "cents": 0}),
    ({"id": 2, "status": "closed", "cents": 5}, {"id": 2, "status": "open", "cents": 5}),
    (None, {"id": 3, "status": "open", "cents": 2}),
    ({"id": 3, "status": "open", "cents": 2}, None),
    (None, {"id": 4, "status": None, "cents": 0}),
    ({"id": 5, "status": "open", "cents": 1}, {"id": 5, "status": "open", "cents": 4}),
]


def document(*, preimages=True, **options):
    made = {"format": "debezium-json", "schema": SCHEMA, "key": ["id"], "preimages": preimages}
    return {
        "pipeline": "test",
        "sources": {"log": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        "operators": {
            "change": {"use": "decode", "from": "log", "with": made, "on_rejected": "drop"},
            "some": {"use": "select", "from": "change", "with": options},
        },
        "sinks": {"out": {"use": "console", "from": "some"}},
    }


def told(trial, **parts):
    """Return the changes that came out, in order, and the table that they make."""
    made = trial(document(**parts))
    ops = {(False, True): "c", (True, True): "u", (True, False): "d"}
    made.feed(
        "log",
        [
            json.dumps({"op": ops[bool(old), bool(new)], "before": old, "after": new})
            for old, new in STORY
        ],
    )
    made.batch()
    rows = sorted(made.rows("out"), key=lambda row: row["_commit_version"])
    table = {}
    for row in rows:
        if row["_change_type"] == "delete":
            table.pop(row["id"], None)
        elif row["_change_type"] != "update_preimage":
            table[row["id"]] = row
    return rows, table


@pytest.mark.parametrize("preimages", [True, False])
@pytest.mark.in_turn
def test_a_row_that_no_longer_meets_the_condition_is_deleted(trial, preimages):
    """Pass: the table has those that meet it alone; a null is none; the sequence stays the change's."""
    rows, table = told(trial, preimages=preimages, where="status = 'open'")
    assert sorted(table) == [2, 5]
    assert [(row["_change_type"], row["id"]) for row in rows] == [
        ("insert", 1), ("delete", 2), ("delete", 1), ("update_postimage", 2),
        ("insert", 3), ("delete", 3), ("delete", 4), ("update_postimage", 5),
    ]  # fmt: skip
    assert len({row["_commit_version"] for row in rows}) == len(STORY)


@pytest.mark.in_turn
def test_what_the_condition_keeps_out_is_not_computed(trial):
    """Pass: a division by what the condition excludes fails nothing; the deletion has key and plain columns."""
    columns = {"id": "ID", "status": "status", "share": "100 / cents"}
    rows, table = told(trial, where="cents > 0", columns=columns)
    assert {key: row["share"] for key, row in table.items()} == {2: 20.0, 5: 25.0}
    closed = next(row for row in rows if row["id"] == 1 and row["status"] == "closed")
    assert (closed["_change_type"], closed["share"]) == ("delete", None)


@pytest.mark.in_turn
def test_a_condition_on_the_key_alone_drops_rows(trial):
    """Pass: pre-images of the other keys stay, and nothing at all comes of those that are dropped."""
    rows, table = told(trial, where="id IN (1, 5) AND NOT id = 2")
    assert [(row["_change_type"], row["id"]) for row in rows if row["id"] == 5] == [
        ("update_preimage", 5), ("update_postimage", 5),
    ]  # fmt: skip
    assert {row["id"] for row in rows} == {1, 5}
    assert sorted(table) == [1, 5]


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("id > 5 AND `ID` IS NOT NULL", True),
        ("id = 1 OR 'status' = 'a \\' cents'", True),
        ("status = 'open'", False),
        ("id = cents", False),
        ("`cents` > 0", False),
        ("id > rand()", False),
        ("_change_type = 'insert'", False),
        ("position > ''", False),
    ],
)
def test_the_plan_tells_whether_pre_images_come_out(where, kept):
    """Pass: they do where the condition compares the key alone."""
    shape = make_plan(document(where=where)).nodes["some"].shape
    assert (shape.key, shape.preimages) == (("id",), kept)
