"""`table_table_join` on Spark over odd names and types, and changes that can't be used."""

from __future__ import annotations

from typing import Any

import pytest

LEFT = (
    "`or der` INT, `a b` SMALLINT, part STRING, extra MAP<STRING, INT>, raw BINARY, "
    "price DECIMAL(9,2), n STRING, gone BOOLEAN"
)
RIGHT = "number BIGINT, part STRING, `na me` STRING, at TIMESTAMP, gone BOOLEAN"


def table(name: str, key: list[str], sequence: str) -> dict[str, Any]:
    options = {"key": key, "sequence": sequence, "delete": "gone"}
    return {"use": "changelog", "from": name, "with": options, "on_rejected": "drop"}


def document() -> dict[str, Any]:
    read = {"use": "files", "with": {"path": "./in", "format": "jsonlines"}}
    return {
        "pipeline": "test",
        "trigger": {"available_now": True},
        "sources": {
            name: {**read, "with": {**read["with"], "schema": schema}}
            for name, schema in (("lefts", LEFT), ("rights", RIGHT))
        },
        "operators": {
            "one": table("lefts", ["Or Der"], "n"),
            "other": table("rights", ["NUMBER", "part"], "at"),
            "both": {
                "use": "table_table_join",
                "from": {"left": "one", "right": "other"},
                "with": {
                    "foreign_key": ["`a b` + 1", "part"],
                    "join": "left",
                    "take": {"b c": "na me", "since": "at"},
                },
            },
        },
        "sinks": {
            "out": {"use": "console", "from": "both"},
            "bad": {"use": "console", "from": "both.rejected"},
        },
    }


@pytest.mark.timeout(600)
@pytest.mark.in_turn
def test_odd_names_and_types_pass_and_changes_without_a_sequence_are_refused(trial):
    """Pass: values come out as they went in, keys of two columns and types meet, versions are told."""
    made = trial(document(), "both.late_changes")
    row = {
        "or der": 1, "a b": 6, "part": "\u00e9 \"x\"", "extra": {"k": 1, "": None}, "raw": "AP8=",
        "price": 1234.50, "n": "00-1", "gone": False,
    }  # fmt: skip
    empty = {**row, "or der": 2, "n": ""}
    made.feed("lefts", [row, empty])
    named = {"number": 7, "part": row["part"], "na me": "it", "at": "2024-05-01T00:00:00.000001Z"}
    made.feed("rights", [{**named, "gone": False}])
    made.batch()
    (found,) = made.rows("out")
    assert {n: found[n] for n in ("or der", "a b", "part", "extra", "b c")} == {
        "or der": 1, "a b": 6, "part": row["part"], "extra": row["extra"], "b c": "it",
    }  # fmt: skip
    assert float(found["price"]) == 1234.5
    assert found["_change_type"] == "insert"
    assert found["_commit_version"].startswith("00/]1.0")
    assert found["_commit_timestamp"] == found["since"]
    assert found["since"].startswith("2024-05-01T00:00:00.000001")
    (refused,) = made.rows("bad")
    assert refused["reason"] == "the sequence of the left change is null or empty"

    made.feed("rights", [{**named, "at": "2024-05-02T00:00:00Z", "gone": True}])
    made.feed("lefts", [{**row, "n": "00-0"}])
    made.batch()
    before, after = made.rows("out")[1:]
    assert [r["_change_type"] for r in (before, after)] == ["update_preimage", "update_postimage"]
    assert (before["b c"], before["raw"], before["extra"]) == ("it", found["raw"], row["extra"])
    assert (after["b c"], after["since"], after["or der"]) == (None, None, 1)
    (late,) = made.rows("both.late_changes")
    assert (late["side"], late["sequence"], late["deleted"]) == ("left", "00-0", False)
    assert '"or der":1' in late["row"]

    made.feed("rights", [{**named, "at": "2024-04-30T00:00:00.000002Z", "gone": False}])
    made.batch()
    assert '"at":"2024-04-30T00:00:00.000002Z"' in made.rows("both.late_changes")[-1]["row"]
