"""What `stream_table_join` refuses, and what it announces, before Spark starts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from mainstem import DocumentError
from mainstem.plan.build import make_plan
from mainstem.plan.model import Plan


def document(
    stream: str = "city STRING, placed TIMESTAMP, cents INT",
    table: str = "name STRING, observed TIMESTAMP, celsius DOUBLE",
    watermarks: tuple[bool, bool] = (True, True),
    **options: Any,
) -> dict[str, Any]:
    sources: dict[str, Any] = {}
    times = (("orders", stream, "placed"), ("readings", table, "observed"))
    for (name, columns, time), watermark in zip(times, watermarks, strict=True):
        given = {"path": "in", "format": "jsonlines", "schema": columns}
        sources[name] = {"use": "files", "with": given}
        if watermark:
            sources[name]["watermark"] = {"column": time, "delay": "10 minutes"}
    return {
        "pipeline": "test",
        "sources": sources,
        "operators": {
            "weather": {
                "use": "changelog",
                "from": "readings",
                "with": {"key": ["name"], "sequence": "observed"},
                "on_rejected": "drop",
            },
            "enriched": {
                "use": "stream_table_join",
                "from": {"stream": "orders", "table": "weather"},
                "with": {"on": {"city": "name"}, **options},
                "on_rejected": "drop",
            },
        },
        "sinks": {"out": {"use": "console", "from": "enriched"}},
    }


def plan(**options: Any) -> Plan:
    return make_plan(document(**options))


AT = "operators.enriched.with"


@pytest.mark.parametrize(
    ("made", "key", "words"),
    [
        (document(on=["city"]), f"{AT}.on", "the table has no column 'city'"),
        (document(on={"town": "name"}), f"{AT}.on", "the stream has no column 'town'"),
        (document(on={"city": "name", "cents": "celsius"}), f"{AT}.on", "the table's key is name"),
        (document(take=["x"]), f"{AT}.take", "the table has no column 'x'"),
        (document(stream="city STRING, placed TIMESTAMP, celsius INT"), f"{AT}.take", "the result would have two columns"),
        (document(take={"cents": "celsius"}), f"{AT}.take", "the result would have two columns"),
        (document(take={"_c": "celsius"}), f"{AT}.take", "'_c': names that begin with _"),
        (document(version={"since": "observed"}), f"{AT}.version", "'observed' is taken"),
        (document(as_of="latest", when="complete"), f"{AT}.when", "can't be complete"),
        (document(wait="10 seconds"), f"{AT}.wait", "is for `when: now`"),
        (document(as_of="latest", within="1 hour"), f"{AT}.within", "goes by event time"),
        (document(as_of="latest", direction="nearest"), f"{AT}.direction", "goes by event time"),
        (document(direction="forward"), f"{AT}.direction", "needs an end"),
        (document(direction="nearest", within="1 hour", when="now"),
         f"{AT}.direction", "is not known now"),
        (document(watermarks=(False, True)), f"{AT}.as_of", "the stream has no event time"),
        (document(watermarks=(True, False)), f"{AT}.as_of", "the table has no event time"),
        (document(watermarks=(False, True), as_of="latest", wait="1 minute"), f"{AT}.wait", "the stream"),
        (document(watermarks=(True, False), as_of="latest", deletes_within="1 day"),
         f"{AT}.deletes_within", "the table has no event time"),
        (document(deletes_within="0 days"), f"{AT}.deletes_within", "more than 0"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_with_its_key(made, key, words):
    """Pass: exactly one problem, at that key, in those words."""
    with pytest.raises(DocumentError) as failure:
        make_plan(made)
    (problem,) = failure.value.problems
    assert problem.key == key
    assert words in problem.message


def test_events_at_the_port_of_the_table_are_refused():
    """Pass: the problem says what the port takes."""
    made = document()
    made["operators"]["enriched"]["from"]["table"] = "readings"
    with pytest.raises(DocumentError, match="takes changelog, not events"):
        make_plan(made)


def test_the_output_is_the_event_with_the_tables_columns_and_the_version():
    """Pass: the announced columns, in order."""
    made = plan(version={"sequence": "weather_version", "since": "weather_since"})
    shape = made.nodes["enriched"].shape
    assert str(shape) == (
        "events(city STRING, placed TIMESTAMP, cents INT, observed TIMESTAMP, celsius DOUBLE, "
        "weather_version TIMESTAMP, weather_since TIMESTAMP)"
    )


@pytest.mark.parametrize(
    ("options", "time"),
    [({}, None), ({"when": "now"}, "placed"), ({"when": "now", "wait": "1 s"}, None)],
)
def test_what_comes_behind_the_watermark_has_no_event_time_any_more(options, time):
    """Pass: only of what is joined at once can windows be made, which drop what is late."""
    found = plan(**options).nodes["enriched"].shape.event_time
    assert (found and found.column) == time


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"late", "late_changes", "unmatched", "rejected"}),
        ({"join": "left"}, {"late", "late_changes", "rejected"}),
        (
            {"as_of": "latest", "watermarks": (False, False)},
            {"late_changes", "unmatched", "rejected"},
        ),
    ],
)
def test_the_named_outputs_are_those_that_can_have_rows(options, expected):
    """Pass: `late` where time counts, `unmatched` of an inner join."""
    assert set(plan(**options).nodes["enriched"].outputs) == expected


@pytest.mark.parametrize("delays", [("10 minutes", "1 second"), ("1 second", "10 minutes")])
def test_both_sides_are_past_an_event_that_has_waited(delays):
    """Pass: the watermark is so far past the event, or behind it, that no side is less than `wait` ahead."""
    parts = document(when="now", wait="10 seconds")
    for name, delay in zip(("orders", "readings"), delays, strict=True):
        parts["sources"][name]["watermark"]["delay"] = delay
    node = make_plan(parts).nodes["enriched"]
    # Of the watermark, which is behind each side by its delay.
    wait = node.operator._settings(node.shapes).wait
    assert wait == min(10 - 1, 1e-6) * 1_000_000


def test_only_a_complete_join_may_be_read_by_two_queries():
    """Pass: without a relay `complete` plans, `now` is an error that says that the two would disagree."""
    made = document()
    made["sinks"]["own"] = {"use": "console", "from": "enriched", "query": "own"}
    (relay,) = make_plan(made).relays
    assert "enriched keeps state, and would run in the queries" in relay.why
    made["operators"]["enriched"]["relay"] = False
    assert not make_plan(made).relays
    made["operators"]["enriched"]["with"]["when"] = "now"
    with pytest.raises(DocumentError, match="the two would disagree"):
        make_plan(made)


def test_the_plan_says_that_the_table_stays_and_loads_first():
    """Pass: a warning about state that grows; the table's port is loaded first."""
    made = plan()
    assert any("newest version of every key" in warning for warning in made.warnings)
    assert made.nodes["enriched"].component.loaded_first() == {"table"}


def test_importing_the_operators_imports_neither_spark_nor_polars():
    """Pass: a fresh interpreter has none of them after a plan was made."""
    script = (
        "import mainstem_operators_joins.plugin, mainstem_operators_joins.stream_table, sys; "
        "sys.exit(any(name in sys.modules for name in ('pyspark', 'polars')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("kind", ["STRUCT<a: INT>", "ARRAY<INT>", "VARIANT"])
def test_a_sequence_without_an_order_is_refused(kind):
    """Pass: a type whose values have no order here is refused before anything runs, with what to do."""
    made = document(table=f"name STRING, observed TIMESTAMP, celsius DOUBLE, version {kind}")
    made["operators"]["weather"]["with"]["sequence"] = "version"
    with pytest.raises(DocumentError) as failure:
        make_plan(made)
    assert any("no order here" in problem.message for problem in failure.value.problems)
