"""What `table` refuses, and what it announces, before Spark starts."""

from __future__ import annotations

from typing import Any

import pytest
from mainstem import DocumentError
from mainstem.plan.build import make_plan


def document(watermark: bool = True, **options: Any) -> dict[str, Any]:
    schema = "City STRING, observed TIMESTAMP, celsius DOUBLE"
    source: dict[str, Any] = {
        "use": "files",
        "with": {"path": "in", "format": "jsonlines", "schema": schema},
    }
    if watermark:
        source["watermark"] = {"column": "observed", "delay": "10 minutes"}
    own = {"key": ["City"], "sequence": "observed", **options}
    return {
        "pipeline": "test",
        "sources": {"readings": source},
        "operators": {
            "weather": {"use": "table", "from": "readings", "with": own, "on_rejected": "drop"}
        },
        "sinks": {"out": {"use": "console", "from": "weather"}},
    }


AT = "operators.weather.with"


@pytest.mark.parametrize(
    ("made", "key", "words"),
    [
        (document(key=["town"]), f"{AT}.key", "the input has no column 'town'"),
        (document(key=[]), f"{AT}.key", "at least 1"),
        (document(sequence="position"), f"{AT}.sequence", "the input has no column 'position'"),
        (
            document(watermark=False, deletes_within="1 day"),
            f"{AT}.deletes_within",
            "no event time",
        ),
        (document(watermark=False, history={"within": "1 day"}), f"{AT}.history", "no event time"),
        (document(history={}), f"{AT}.history", "expected `versions`, `within` or both"),
        (document(history={"versions": 0}), f"{AT}.history.versions", "greater than or equal to 1"),
    ],
)
def test_a_wrong_option_is_refused_with_its_key(made, key, words):
    """Pass: exactly one problem, at that key, in those words."""
    with pytest.raises(DocumentError) as failure:
        make_plan(made)
    (problem,) = failure.value.problems
    assert problem.key == key
    assert words in problem.message


def test_a_sequence_without_an_order_is_refused():
    """Pass: before a run, where its type is known: rows could not be compared."""
    made = document(sequence="place")
    read = made["sources"]["readings"]["with"]
    read["schema"] += ", place STRUCT<ts: BIGINT, n: INT>"
    with pytest.raises(DocumentError, match="whose values have no order here"):
        make_plan(made)


def test_events_become_a_changelog_with_preimages():
    """Pass: the announced shape, what tells changes apart, and the outputs."""
    node = make_plan(document(key=["city"])).nodes["weather"]
    assert str(node.shape) == "changelog(City STRING, observed TIMESTAMP, celsius DOUBLE)"
    assert (node.shape.key, node.shape.sequence, node.shape.preimages) == (
        ("City",),
        "observed",
        True,
    )
    assert node.identity == ("City", "_commit_version", "_change_type")
    assert set(node.outputs) == {"late", "rejected"}
    assert node.outputs["late"].names == ("City", "observed", "celsius", "_reason")


def test_the_plan_says_that_the_table_stays_and_what_of_deleted_keys():
    """Pass: a warning about state that grows, which speaks of deleted keys until they are forgotten."""
    told = [w for w in make_plan(document()).warnings if "newest row of every key" in w]
    assert "deleted keys too" in told[0]
    told = [w for w in make_plan(document(deletes_within="1 day")).warnings if "newest row" in w]
    assert "deleted keys too" not in told[0]


def test_a_table_read_by_two_queries_needs_a_relay():
    """Pass: what is told depends on batches, so the two would disagree."""
    made = document()
    made["sinks"]["own"] = {"use": "console", "from": "weather", "query": "own"}
    assert len(make_plan(made).relays) == 1
    made["operators"]["weather"]["relay"] = False
    with pytest.raises(DocumentError, match="the two would disagree"):
        make_plan(made)
