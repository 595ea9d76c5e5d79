"""What `stream_stream_join` is given and gives, without Spark: columns, event time, refusals."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from mainstem import Inputs
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan
from mainstem.plan.rendering import as_text

LEFT = "k STRING NOT NULL, n BIGINT NOT NULL, at TIMESTAMP"
RIGHT = "key STRING NOT NULL, m BIGINT NOT NULL, seen TIMESTAMP"


def source(schema: str, time: str = "") -> dict[str, Any]:
    watermark = {"watermark": {"column": time, "delay": "5 minutes"}} if time else {}
    options = {"path": "in", "format": "jsonlines", "schema": schema}
    return {"use": "files", "with": options, **watermark}


def plan(left: Any = None, right: Any = None, ports: Any = None, **options: Any) -> Any:
    given = {"on": {"k": "key"}, "within": {"before": "1 minute", "after": "2 minutes"}, **options}
    return make_plan(
        {
            "pipeline": "test",
            "sources": {"l": left or source(LEFT, "at"), "r": right or source(RIGHT, "seen")},
            "operators": {
                "both": {
                    "use": "stream_stream_join",
                    "from": ports or {"left": "l", "right": "r"},
                    "with": given,
                }
            },
            "sinks": {"out": {"use": "console", "from": "both"}},
        }
    )


def columns(made: Any, output: str = "") -> list[str]:
    node = made.nodes["both"]
    shape = node.outputs[output] if output else node.shape
    return [f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in shape.columns]


def test_columns_of_both_sides_in_order_without_the_key_twice():
    """Pass: the left columns, then the right ones but the key; what can be missing may be null."""
    inner = ["k string NOT NULL", "n bigint NOT NULL", "at timestamp"]
    assert columns(plan()) == [*inner, "m bigint NOT NULL", "seen timestamp"]
    assert columns(plan(join="left")) == [*inner, "m bigint", "seen timestamp"]
    right = ["k string NOT NULL", "n bigint", "at timestamp", "m bigint NOT NULL", "seen timestamp"]
    assert columns(plan(join="right")) == right
    assert columns(plan(join="full"))[3] == "m bigint"
    assert columns(plan(join="left_semi")) == inner
    assert columns(plan(take={"other": "m"})) == [*inner, "other bigint NOT NULL"]


@pytest.mark.parametrize(
    ("options", "minutes"),
    [({}, 2), ({"join": "right"}, 1), ({"time": "right"}, 1), ({"join": "left_semi"}, 2)],
)
def test_rows_come_as_far_behind_the_watermark_as_they_wait(options, minutes):
    """Pass: a row of one side can come with the last one of the other that belongs to it, joins of joins the
    later by both; and a relay below is told."""
    assert plan(**options).nodes["both"].shape.event_time.behind == timedelta(minutes=minutes)
    again = plan().nodes["both"]
    left = again.shape.with_columns(again.shape.columns)
    shapes = {"left": left, "right": plan().nodes["r"].shape}
    step = plan(on={"k": "key"}, take={"o": "m"}).nodes["both"].operator
    assert step.shape(Inputs(shapes)).event_time.behind == timedelta(minutes=4)


@pytest.mark.parametrize(
    ("options", "column"),
    [
        ({}, "at"),
        ({"join": "left"}, "at"),
        ({"join": "right"}, "seen"),
        ({"join": "full"}, None),
        ({"time": "right"}, "seen"),
        ({"time": "right", "take": {"later": "seen"}}, "later"),
        ({"time": "right", "take": ["m"]}, None),
        ({"join": "left_semi"}, "at"),
    ],
)
def test_one_event_time_goes_on(options, column):
    """Pass: the left's, the right's where asked for or where the left's may be null, none with `full`."""
    found = plan(**options).nodes["both"].shape.event_time
    assert (found and found.column) == column


def test_outputs_of_rows_without_a_partner_are_those_that_the_join_does_not_keep():
    """Pass: none unless asked for; the columns are the side's."""
    assert plan().nodes["both"].outputs == {}
    inner = plan(unmatched=True)
    assert list(inner.nodes["both"].outputs) == ["unmatched", "unmatched_right"]
    assert columns(inner, "unmatched_right") == [
        "key string NOT NULL",
        "m bigint NOT NULL",
        "seen timestamp",
    ]
    assert list(plan(join="left", unmatched=True).nodes["both"].outputs) == ["unmatched_right"]
    assert list(plan(join="right", unmatched=True).nodes["both"].outputs) == ["unmatched"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"on": ["k"]}, "the right stream has no column 'k'"),
        ({"on": {"kk": "key"}}, "the left stream has no column 'kk'"),
        ({"on": {"k": "m"}}, "k. string.* and .m. bigint.* are of different types"),
        (
            {"left": source(LEFT)},
            "the left stream has no event time, so its rows would wait for ever",
        ),
        ({"right": source(RIGHT)}, "the right stream has no event time"),
        (
            {"right": source("key STRING, at TIMESTAMP", "at")},
            "the result would have two columns 'at'",
        ),
        ({"take": {"_m": "m"}}, "names that begin with _ are reserved"),
        ({"take": ["mm"]}, "the right stream has no column 'mm'"),
        ({"join": "left_semi", "take": ["m"]}, "gives the left stream's columns alone"),
        ({"join": "left", "time": "right"}, "the right event time may be null"),
        ({"join": "right", "time": "left"}, "the left event time may be null"),
        ({"join": "full", "time": "left"}, "the left event time may be null"),
        ({"join": "full", "unmatched": True}, "has no output `unmatched`"),
        ({"within": {"before": "-1 minutes"}}, "within.before"),
        ({"on": {}}, "on"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_document(given, words):
    """Pass: the error says what, and where."""
    with pytest.raises(DocumentError, match=words) as failure:
        plan(**given)
    assert "operators.both" in str(failure.value)


def test_a_clash_tells_how_to_name_the_column():
    """Pass: the hint is the option to write."""
    with pytest.raises(DocumentError, match=r"take: \{right_at: at"):
        plan(right=source("key STRING, at TIMESTAMP", "at"))


def test_a_row_is_held_for_as_long_as_a_partner_can_come():
    """Pass: the longer one of both directions, which a flush has to wait for; the state is bounded."""
    made = plan()
    state = made.nodes["both"].state
    assert state.holds == timedelta(minutes=2, milliseconds=1)
    assert "keeps state (bounded)" in as_text(made)


def test_the_plan_says_that_a_self_join_reads_its_source_twice():
    """Pass: a warning, and the count of reads."""
    made = plan(ports={"left": "l", "right": "l"}, on=["k"], take={"other": "n"})
    assert dict(made.queries[0].reads) == {"l": 2}
    assert "l: read 2 times in the query both." in made.warnings


def test_ids_are_made_above_both_sides_where_a_sink_needs_them():
    """Pass: both sources make `_id` for a sink that drops copies by it; neither does for one that does not."""
    made = plan()
    assert [made.nodes[name].makes_id for name in "lr"] == [False, False]
    document = {
        "pipeline": "test",
        "sources": {"l": source(LEFT, "at"), "r": source(RIGHT, "seen")},
        "operators": {
            "both": {
                "use": "stream_stream_join",
                "from": {"left": "l", "right": "r"},
                "with": {"on": {"k": "key"}, "within": {"after": "1 minute"}, "unmatched": True},
            },
            "told": {"use": "encode", "from": "both", "with": {"format": "json"}},
            "heard": {
                "use": "decode",
                "from": "told",
                "with": {"format": "json", "schema": "n INT"},
            },
        },
        "sinks": {
            "out": {"use": "console", "from": "heard"},
            "bad": {"use": "console", "from": "heard.rejected"},
        },
    }
    made = make_plan(document)
    assert [made.nodes[name].makes_id for name in ("l", "r", "both")] == [True, True, False]
