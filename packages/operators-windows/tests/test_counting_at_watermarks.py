"""Rows that are counted at a watermark, and the steps that need no count for it."""

from __future__ import annotations

from typing import Any

import pytest
from mainstem.plan.build import make_plan
from mainstem.run.counting import counted
from windows_cases import Case


def select(stream: str, **options: Any) -> dict[str, Any]:
    return {"use": "select", "from": stream, "with": options}


def test_what_is_counted_at_a_watermark_is_not_counted_again_below():
    """Pass: steps that keep every row have the count of the watermark above them, up to one that does not; a node
    with a watermark that nothing goes by is counted as any other."""
    timed = {
        "use": "files",
        "with": {"path": "in", "format": "jsonlines", "schema": "n BIGINT, at TIMESTAMP"},
    }
    steps = {
        "named": select("rows", columns={"m": "n", "at": "at"}),
        "more": select("named", columns={"m": "m + 1", "at": "at"}),
        "some": select("more", where="m > 1"),
        "sorted": {"use": "sort", "from": "some"},
    }
    document = {
        "pipeline": "test",
        "sources": {"rows": {**timed, "watermark": {"column": "at", "delay": "1 minute"}}},
        "operators": steps,
        "sinks": {"out": {"use": "console", "from": "sorted"}},
    }
    made = make_plan(document)
    found = counted(made, made.queries[0])
    assert found.by_above == {"named": "rows", "more": "named"}
    assert not found.by_below
    whole = found.complete({"rows": {"rows": 5, "without_time": 1}, "some": {"rows": 2}})
    assert whole["named"] == whole["more"] == {"rows": 5}
    del document["operators"]["sorted"]
    document["sinks"]["out"]["from"] = "some"
    made = make_plan(document)
    found = counted(made, made.queries[0])
    assert (found.by_above, found.by_below) == ({}, {"named": "more"})  # `rows` has other outputs


@pytest.mark.in_turn
@pytest.mark.parametrize("more", [{}, {"lateness": "0 seconds"}], ids=["native", "by_key"])
def test_rows_that_a_step_leaves_out_move_the_watermark_all_the_same(pipeline, more):
    """Pass: a window ends by the time of rows that a condition below the watermark drops, and by a flush, whose rows
    have nothing that the condition keeps."""
    options = {
        "by": ["k"],
        "columns": {"n": "count(*)"},
        "window": {"on": "at", "tumbling": "1 hour"},
        **more,
    }
    case = Case(
        pipeline,
        {
            "some": select("rows", where="v > 5"),
            "total": {"use": "aggregate", "from": "some", "with": options},
        },
        "total",
    )

    def found():
        return sorted(str(row["window_start"])[11:16] for row in case.rows("total"))

    case.feed(("a", "01:10", 7))
    case.feed(("a", "03:00", 1))
    case.feed(("a", "03:01", 1))
    case.run()
    assert found() == ["01:00"]
    case.feed(("a", "04:10", 7))
    case.run(flush=True)
    assert found() == ["01:00", "04:00"]
