"""`table` and `stream_table_join` killed with kill -9 at each crash point: in the loading too, and at the end."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
from mainstem_testkit.crashing import crash_at_every_point
from mainstem_testkit.pipelines import PipelineFolder
from stream_table_model import brief, whole
from test_stream_table_spark import _case, came, document, fed


def _pipeline(pipeline: PipelineFolder) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Write a document with both operators, two files for each source; return events and changes."""
    made = document()
    for name, source in made["sources"].items():
        source["with"] |= {"path": f"./{name}", "max_files": 1}
    kept = {"key": ["key", "sub"], "sequence": "seq", "delete": "gone"}
    operators = {**made["operators"], "prices": {"use": "table", "from": "rows", "with": kept}}
    pipeline.document(
        sources=made["sources"],
        operators=operators,
        trigger={"available_now": True, "flush": True},
        sinks={
            "out": pipeline.sink("out", "joined"),
            "alone": pipeline.sink("alone", "joined.unmatched"),
            "changes": pipeline.sink("changes", "prices"),
        },
    )
    chance = random.Random(7)
    events, changes = _case(0, chance)
    # Without the two that are there twice; sequences are in another order than times.
    latest = [{**row, "_commit_version": n} for n, row in enumerate(changes[:-2])]
    for name, rows, column in (("events", events, "at"), ("rows", latest, "since")):
        folder = pipeline.folder / name
        folder.mkdir()
        rows = sorted(rows, key=lambda row: (row[column], row.get("_commit_version", 0)))
        for number, part in enumerate((rows[:3], rows[3:])):
            text = "".join(json.dumps(fed(row)) + "\n" for row in part)
            file = folder / f"{number}.jsonl"
            file.write_text(text)
            # Spark takes the files in the order of their times, which ties leave open.
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return events, latest


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kills_at_every_crash_point_leave_each_row_once(pipeline):
    """Pass: after each kill and rerun the joined rows are those of merge_asof; each change stands once."""
    events, changes = _pipeline(pipeline)
    expected, alone = whole(events, changes, "inner")
    assert expected
    newest = {row["key"]: row["price"] for row in changes}  # in the order of their sequences
    table = {key: price for key, price in newest.items() if price is not None}

    def check(found: PipelineFolder) -> None:
        assert brief(came(found.rows("out"))) == expected
        assert sorted(row["n"] for row in found.rows("alone")) == alone
        told = found.rows("changes")
        marks = [(row["key"], row["_commit_version"], row["_change_type"]) for row in told]
        assert len(set(marks)) == len(marks)
        state: dict[str, Any] = {}
        order = sorted(
            told, key=lambda r: (r["_commit_version"], r["_change_type"] != "update_preimage")
        )
        for row in order:
            if row["_change_type"] in ("update_preimage", "delete"):
                assert state.pop(row["key"]) == row["price"]
            else:
                assert row["key"] not in state
                state[row["key"]] = row["price"]
        assert state == table

    passed = crash_at_every_point(pipeline, check)
    assert {"bootstrap.before-done", "run.before-batch", "run.after-batch"} <= set(passed)
