"""Which nodes are counted, and which take their count from the step below them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem.plan.build import make_plan
from mainstem.run.counting import Counted, counted

LINES = {"use": "files", "with": {"path": "in", "format": "message"}}
DECODE = {"use": "decode", "from": "lines", "with": {"format": "json", "schema": "n BIGINT"}}


def by_below(operators: dict[str, Any], sinks: dict[str, str]) -> Mapping[str, str]:
    made = make_plan(
        {
            "pipeline": "test",
            "sources": {"lines": LINES},
            "operators": {"row": DECODE, **operators},
            "sinks": {
                "bad": {"use": "console", "from": "row.rejected"},
                **{name: {"use": "console", "from": stream} for name, stream in sinks.items()},
            },
        }
    )
    (query,) = made.queries
    found = counted(made, query)
    assert not found.by_above
    return found.by_below


def select(stream: str, **options: Any) -> dict[str, Any]:
    return {"use": "select", "from": stream, "with": options}


def test_a_step_that_keeps_every_row_counts_for_the_node_above_it():
    """Pass: a chain of such steps is counted once, from the bottom up."""
    named = {"named": select("row", columns={"n": "n"})}
    twice = {**named, "again": select("named", columns={"n": "n + 1"})}
    assert by_below(named, {"out": "named"}) == {"lines": "row"}  # `row` has rejected rows to count
    assert by_below(twice, {"out": "again"}) == {"lines": "row", "named": "again"}
    found = Counted({}, {"lines": "row"}).complete(
        {"row": {"rows": 3, "rejected": 2}, "again": {"rows": 3}}
    )
    assert found["lines"] == {"rows": 5}
    timed = Counted({}, {"lines": "row"}).complete({"row": {"rows": 3, "without_time": 2}})
    assert timed["lines"] == {"rows": 3}
    own = Counted({}, {"few": "all"}).complete({"few": {"without_time": 2}, "all": {"rows": 3}})
    assert own["few"] == {"without_time": 2, "rows": 3}


def test_a_node_that_is_read_otherwise_is_counted_itself():
    """Pass: a step that drops rows counts for nobody, nor does one of two readers."""
    assert by_below({"some": select("row", where="n > 1")}, {"out": "some"}) == {"lines": "row"}
    few = {
        "few": select("lines", where="value != ''"),
        "all": select("few", columns={"v": "value"}),
    }
    assert by_below(few, {"out": "all", "rows": "row"}) == {"few": "all"}
    union = {"both": {"use": "union", "from": ["row", "row"]}}
    assert by_below(union, {"out": "both"}) == {"lines": "row"}


def test_a_count_that_is_not_there_is_not_made_up():
    """Pass: a step that was not evaluated counts for nothing."""
    assert Counted({"named": "row"}, {"lines": "row"}).complete({}) == {}
