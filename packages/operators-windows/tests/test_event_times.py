"""The event times of what comes out: how far behind the watermark rows come, and what stands between."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from mainstem import Inputs
from mainstem.plan.build import make_plan

HOURS = {"by": ["k"], "window": {"on": "at", "tumbling": "1 hour"}, "columns": {"n": "count(*)"}}


def plan(operators: dict[str, Any], last: str, delay: str = "5 minutes") -> Any:
    """Return the plan of a document with rows `k`, `at`, `v` and some operators."""
    given = {"path": "in", "format": "jsonlines", "schema": "k STRING, at TIMESTAMP, v INT"}
    time = {"column": "at", "delay": delay}
    return make_plan(
        {
            "pipeline": "test",
            "sources": {"rows": {"use": "files", "with": given, "watermark": time}},
            "operators": operators,
            "sinks": {"out": {"use": "console", "from": last}},
        }
    )


def step(use: str, above: Any = "rows", **options: Any) -> dict[str, Any]:
    return {"use": use, "from": above, "with": options}


LAST = step("deduplicate", by=["k"], within="20 minutes", keep="last")


@pytest.mark.parametrize(
    ("made", "minutes"),
    [
        (step("deduplicate", by=["k"], within="20 minutes"), 0),
        (LAST, 20),
        (step("sort"), 0),
        (step("aggregate", **HOURS), 0),
        (step("aggregate", **HOURS, lateness="30 minutes", emit={"late": "each"}), None),
    ],
)
def test_rows_come_as_far_behind_the_watermark_as_they_have_waited(made, minutes):
    """Pass: the last copy has waited as long as the first; what is final comes with the watermark."""
    time = plan({"step": made}, "step").nodes["step"].shape.event_time
    assert (time and time.behind) == (None if minutes is None else timedelta(minutes=minutes))


def test_windows_are_as_far_behind_as_their_rows():
    """Pass: final windows of rows that come behind the watermark, and are kept open, come behind by both."""
    made = step("aggregate", "last", **HOURS, lateness="30 minutes")
    planned = plan({"last": LAST, "hours": made}, "hours")
    operator = planned.nodes["hours"].operator
    given = Inputs({"input": planned.nodes["last"].shape})
    assert operator.shape(given).event_time.behind == timedelta(minutes=50)


@pytest.mark.parametrize("ports", [["rows", "sorted"], ["sorted", "rows"]])
def test_what_the_watermark_has_passed_makes_a_relay_beside_what_it_has_not(ports):
    """Pass: windows over rows as they come and rows that were held back, in whichever order they are named.

    The streams have one event time where the watermark has no delay.
    """
    operators = {"sorted": step("sort"), "both": {"use": "union", "from": ports}}
    operators["hours"] = step("aggregate", "both", **HOURS)
    planned = plan(operators, "hours", delay="0 seconds")
    assert [relay.stream.node for relay in planned.relays] == ["both"]


@pytest.mark.parametrize(("more", "kept"), [({}, False), ({"ties": True}, True)])
def test_a_checkpoint_of_ranks_without_ties_is_as_before_there_were_any(more, kept):
    """Pass: what the state hangs on has `ties` only where they are asked for."""
    made = step("top", by=["at"], order=["v DESC"], n=1, emit="final", **more)
    assert ("ties" in plan({"first": made}, "first").nodes["first"].state.shaped_by) is kept
