"""What `aggregate` refuses, and what it announces, before Spark starts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from mainstem import DocumentError
from mainstem.plan.build import make_plan
from mainstem.plan.rendering import as_text

BASE: dict[str, Any] = {
    "pipeline": "test",
    "sources": {
        "rows": {
            "use": "files",
            "with": {
                "path": "in",
                "format": "jsonlines",
                "schema": "k STRING, at TIMESTAMP, v INT",
            },
            "watermark": {"column": "at", "delay": "10 minutes"},
        }
    },
    "operators": {
        "total": {
            "use": "aggregate",
            "from": "rows",
            "with": {
                "by": ["k"],
                "window": {"on": "at", "tumbling": "1 hour"},
                "columns": {"n": "count(*)"},
            },
        }
    },
    "sinks": {"out": {"use": "console", "from": "total"}},
}


def document(watermark: bool = True, **options: Any) -> dict[str, Any]:
    made = copy.deepcopy(BASE)
    if not watermark:
        del made["sources"]["rows"]["watermark"]
    given = made["operators"]["total"]["with"]
    for name, value in options.items():
        if value is None:
            given.pop(name, None)
        else:
            given[name] = value
    return made


@pytest.mark.parametrize(
    ("made", "key", "words"),
    [
        (document(by=["kk"]), "operators.total.with.by", "there is no column 'kk'"),
        (document(window={"on": "k", "tumbling": "1 hour"}),
         "operators.total.with.window", "no TIMESTAMP"),
        (document(window={"on": "x", "tumbling": "1 hour"}),
         "operators.total.with.window", "no column 'x'"),
        (document(window={"on": "at"}), "operators.total.with.window", "exactly one of"),
        (document(window={"on": "at", "tumbling": "1 hour", "session": "1 hour"}),
         "operators.total.with.window", "exactly one of"),
        (document(window={"on": "at", "hopping": "1 hour"}),
         "operators.total.with.window", "go together"),
        (document(window={"on": "at", "hopping": "1 hour", "every": "2 hours"}),
         "operators.total.with.window", "leaves gaps"),
        (document(window={"on": "at", "tumbling": "0 hours"}), "operators.total.with.window", "above 0"),
        (document(window={"on": "at", "tumbling": "1 fortnight"}),
         "operators.total.with.window.tumbling", "unknown unit"),
        (document(columns={}), "operators.total.with.columns", "at least 1"),
        (document(columns={"k": "count(*)"}), "operators.total.with.columns", "is taken"),
        (document(columns={"K": "count(*)"}), "operators.total.with.columns", "is taken"),
        (document(columns={"n": "count(*)", "N": "sum(v)"}), "operators.total.with.columns", "is taken"),
        (document(columns={"_n": "count(*)"}), "operators.total.with.columns", "is taken"),
        (document(window=None), "operators.total.with.emit", "never final"),
        (document(watermark=False), "operators.total.with.window", "need a watermark"),
        (document(window={"on": "at", "count": 3, "slide": 4}),
         "operators.total.with.window", "leaves rows out"),
        (document(window={"on": "at", "sliding": "1 hour", "slide": 4}),
         "operators.total.with.window", "`slide` goes with `count`"),
        (document(window={"on": "at", "count": 3}, emit="changes"),
         "operators.total.with.emit", "come when they are final"),
        (document(window={"on": "at", "sliding": "1 hour"}, emit={"late": "each"}, lateness="1 hour"),
         "operators.total.with.emit", "come when they are final"),
        (document(window={"on": "at", "sliding": "1 hour"}, lateness="1 hour"),
         "operators.total.with.lateness", "are over at once"),
        (document(emit={"early": {"count": 1, "every": "1 hour"}}),
         "operators.total.with.emit.early", "one of `every` and `count`"),
        (document(emit={"late": "each"}), "operators.total.with.lateness", "keeps a window open"),
        (document(emit={"early": {"count": 1}}, lateness="1 hour"),
         "operators.total.with.emit", "do not come out again"),
        (document(emit={"early": {"count": 1}, "results": "increments"},
                  window={"on": "at", "session": "1 hour"}),
         "operators.total.with.emit", "sessions merge"),
        (document(emit={"early": {"count": 1}}, columns={"pane": "count(*)"}),
         "operators.total.with.columns", "'pane' is taken"),
        (document(window=None, emit={"late": "each"}, lateness="1 hour"),
         "operators.total.with.lateness", "nothing is late"),
        (document(window=None, emit={}), "operators.total.with.emit", "early results alone"),
        (document(watermark=False, lateness="1 hour", emit="changes"),
         "operators.total.with.window", "need a watermark"),
        (document(watermark=False, window=None, emit={"early": {"every": "1 hour"}}),
         "operators.total.with.emit", "goes by a watermark"),
        (document(lateness="1 hour", columns={"n": "approx_count_distinct(v)"}),
         "operators.total.with.columns", "can't be computed here"),
        (document(window=None, by=None, emit="changes"), "operators.total.with.by", "needs a key"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_with_its_key(made, key, words):
    """Pass: exactly one problem, at that key, in those words."""
    with pytest.raises(DocumentError) as failure:
        make_plan(made)
    (problem,) = failure.value.problems
    assert problem.key == key
    assert words in problem.message


def test_final_totals_are_events_told_apart_by_keys_and_window():
    """Pass: the announced shape, identity and state."""
    node = make_plan(document()).nodes["total"]
    assert str(node.shape) == (
        "events(k STRING, window_start TIMESTAMP, window_end TIMESTAMP, n ?)"
    )
    assert node.identity == ("k", "window_start", "window_end")
    assert node.state is not None
    assert node.state.grows == ""


def test_names_compare_as_spark_compares_them():
    """Pass: the watermark is on the column of the windows, case aside."""
    node = make_plan(document(window={"on": "AT", "tumbling": "1 hour"})).nodes["total"]
    assert node.state is not None
    assert node.state.grows == ""


def test_changes_are_a_changelog_sequenced_by_batch():
    """Pass: the announced key, no pre-images, and warnings where state grows."""
    plan = make_plan(document(emit="changes", window=None))
    shape = plan.nodes["total"].shape
    assert (shape.kind, shape.key, shape.sequence, shape.preimages) == (
        "changelog",
        ("k",),
        None,
        False,
    )
    assert any("grows without bound" in warning for warning in plan.warnings)


def test_asking_for_late_rows_is_an_error_until_there_is_such_an_output():
    """Pass: the error names the output and says there is none."""
    made = document()
    made["sinks"]["late"] = {"use": "console", "from": "total.late"}
    with pytest.raises(DocumentError, match="'total' has no output 'late'"):
        make_plan(made)


def test_changes_read_by_two_queries_need_a_relay():
    """Pass: the output depends on batches, so without one a second copy of the state is an error."""
    made = document(emit="changes")
    made["sinks"]["own"] = {"use": "console", "from": "total", "query": "own"}
    assert len(make_plan(made).relays) == 1
    made["operators"]["total"]["relay"] = False
    with pytest.raises(DocumentError, match="the two would disagree"):
        make_plan(made)


def test_final_totals_above_another_step_with_state_are_fine_and_changes_are_not():
    """Pass: `final` may be aggregated again only with its own watermark; `changes` never."""
    made = document(emit="changes")
    made["operators"]["again"] = {"use": "union", "from": ["total", "rows"]}
    with pytest.raises(DocumentError):
        make_plan(made)


def test_importing_the_plugin_imports_no_spark():
    """Pass: a fresh interpreter has no pyspark after the classes of all words are loaded."""
    import subprocess
    import sys

    script = (
        "import sys; from mainstem.registry import Registry; from mainstem_operators_windows import plugin; "
        "found = Registry(); [found.component('operator', name) for name in plugin.mainstem_operators()]; "
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, "in Spark's own aggregation"),
        ({"lateness": "1 hour"}, "by key: Spark drops late rows"),
        (
            {"columns": {"n": "count(DISTINCT v)"}},
            "by key: Spark computes nothing over DISTINCT values on streams",
        ),
        ({"emit": {"early": {"count": 1}}}, "by key: Spark gives one result of a window"),
        ({"window": {"on": "at", "count": 2}}, "by key: Spark has no windows by count"),
        ({"window": {"on": "at", "sliding": "1 hour"}}, "by key: Spark has no sliding windows"),
        (
            {"window": {"on": "at", "session": "1 hour"}, "emit": "changes"},
            "by key: Spark gives sessions only when they are final",
        ),
    ],
)
def test_a_plan_says_where_totals_are_kept_and_why(more, kept):
    """Pass: in Spark's own aggregation wherever it can do it."""
    plan = make_plan(document(**more))
    state = plan.nodes["total"].state
    assert state is not None
    assert state.kept == kept
    assert f"  kept {kept}\n" in as_text(plan)
