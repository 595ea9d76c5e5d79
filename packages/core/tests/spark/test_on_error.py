"""A row for which an expression fails is refused where the document says so; the others go on."""

from __future__ import annotations

import json

import pytest
from mainstem.errors import DocumentError, PipelineError
from mainstem.plan.build import make_plan
from mainstem.run.failures import with_row
from mainstem.run.telling import told

SCHEMA = "k STRING, n STRING, gone STRING"
ROWS = [
    {"k": "a", "n": "1", "gone": "false"},
    {"k": "b", "n": "one", "gone": "false"},
    {"k": "c", "n": None, "gone": None},
    {"k": "d", "n": "4", "gone": "perhaps"},
]


def document(**operators):
    row = {"use": "decode", "from": "log", "with": {"format": "json", "schema": SCHEMA}}
    nodes = {"row": row, **operators}
    last = list(operators)[-1]
    return {
        "pipeline": "poison",
        "sources": {"log": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        "operators": nodes,
        "sinks": {
            "out": {"use": "console", "from": last},
            "bad": {"use": "console", "from": f"{last}.rejected"},
        },
    }


def step(use, **options):
    return {"use": use, "from": "row", "with": {**options, "on_error": "reject"}}


def run(trial, made):
    pipeline = trial(made)
    pipeline.feed("log", [{"value": json.dumps(row)} for row in ROWS])
    pipeline.batch()
    good = pipeline.rows("out")
    bad = {json.loads(row["payload"])["k"]: row["reason"] for row in pipeline.rows("bad")}
    return good, bad


@pytest.mark.in_turn
def test_select_refuses_the_rows_that_it_cannot_compute(trial):
    """Pass: each row is refused with its expression and its content, or is as it would have been."""
    columns = {"k": "k", "n": "CAST(n AS INT)", "half": "CAST(n AS INT) / 2"}
    good, bad = run(trial, document(s=step("select", columns=columns)))
    assert sorted((row["k"], row["n"], row["half"]) for row in good) == [
        ("a", 1, 0.5), ("c", None, None), ("d", 4, 2.0),
    ]  # fmt: skip
    assert bad == {"b": "columns.n fails: CAST(n AS INT)"}


@pytest.mark.in_turn
def test_what_a_condition_keeps_out_is_not_computed(trial):
    """Pass: rows that `where` drops are refused by no column; those on which it fails are."""
    columns = {"k": "k", "n": "CAST(n AS INT)"}
    good, bad = run(trial, document(s=step("select", where="k != 'b'", columns=columns)))
    assert [row["k"] for row in good] == ["a", "c", "d"]
    assert bad == {}
    good, bad = run(trial, document(s=step("select", where="CAST(n AS INT) > 1")))
    assert [row["k"] for row in good] == ["d"]
    assert bad == {"b": "where fails: CAST(n AS INT) > 1"}


@pytest.mark.in_turn
def test_changelog_and_encode_refuse_theirs(trial):
    """Pass: a condition of deletion and the parts of a message fail for their row alone."""
    table = step("changelog", key=["k"], sequence="k", delete="CAST(gone AS BOOLEAN)")
    good, bad = run(trial, document(t=table))
    assert [row["k"] for row in good] == ["a", "b", "c"]
    assert bad == {"d": "delete fails: CAST(gone AS BOOLEAN)"}
    message = step(
        "encode", format="json", columns=["k"], headers={"n": "CAST(CAST(n AS INT) AS STRING)"}
    )
    good, bad = run(trial, document(m=message))
    assert [json.loads(row["value"])["k"] for row in good] == ["a", "c", "d"]
    assert bad == {"b": "headers.n fails: CAST(CAST(n AS INT) AS STRING)"}


@pytest.mark.in_turn
def test_by_default_the_run_ends_and_says_which_expression(pipeline):
    """Pass: the error names the node, the option's key and what Spark said, without the row's content."""
    failing = {
        "use": "select",
        "from": "lines",
        "with": {"columns": {"n": "CAST(value AS STRING)::INT"}},
    }
    pipeline.document(operators={"s": failing}, sinks={"out": pipeline.sink("out", "s")})
    pipeline.feed("1.jsonl", ["secret"])
    with pytest.raises(PipelineError) as caught:
        pipeline.run()
    told = str(caught.value)
    assert told.startswith(
        "s (operators.s.with.columns.n): [CAST_INVALID_INPUT] The value '?' of the type"
    )
    assert "Use `try_cast` to tolerate malformed input" in told
    assert "secret" not in told


def test_dropping_what_is_never_refused_is_a_mistake():
    """Pass: `on_rejected: drop` on a node that refuses no rows is a problem, with the way to refuse some."""
    made = document(
        s={"use": "select", "from": "row", "on_rejected": "drop", "with": {"where": "n > 1"}}
    )
    del made["sinks"]["bad"]
    with pytest.raises(DocumentError, match="refuses no rows") as caught:
        make_plan(made)
    assert "on_error: reject" in str(caught.value)


@pytest.mark.in_turn
def test_sql_refuses_the_rows_that_it_cannot_compute(trial):
    """Pass: of a query with a part of its own, each expression and condition refuses its rows alone."""
    query = (
        "SELECT k, n + 0 AS n, upper(k) AS big FROM "
        "(SELECT k, CAST(n AS INT) AS n, gone FROM input WHERE k != 'x') "
        "WHERE CAST(gone AS BOOLEAN) IS NOT TRUE"
    )
    step_ = step("sql", query=query, schema="k STRING, n INT, big STRING")
    good, bad = run(trial, document(s=step_))
    assert sorted((row["k"], row["n"], row["big"]) for row in good) == [
        ("a", 1, "A"), ("c", None, "C"),
    ]  # fmt: skip
    assert sorted(bad) == ["b", "d"]
    assert bad["b"].startswith("column n fails: CAST(")
    assert bad["d"].startswith("the condition fails: ")


@pytest.mark.parametrize(
    ("condition", "kept", "refused"),
    [
        ("k != 'b'", "acd", ""),  # Spark drops the row before it computes anything of it
        ("kk != 'b'", "acd", ""),
        ("n > 0 OR n IS NULL", "acd", "b"),
        ("n IS NOT NULL", "ad", "b"),
        ("m IS NOT NULL", "ad", "b"),
    ],
)
@pytest.mark.in_turn
def test_a_row_that_is_dropped_by_what_came_is_not_refused(trial, condition, kept, refused):
    """Pass: one whose condition rests on what failed is, whatever the condition makes of a null."""
    query = (
        "SELECT k, n FROM (SELECT k, k AS kk, n, n AS m FROM "
        f"(SELECT k, CAST(n AS INT) AS n FROM input)) WHERE {condition}"
    )
    good, bad = run(trial, document(s=step("sql", query=query, schema="k STRING, n INT")))
    assert {row["k"] for row in good} == {*kept}
    assert {*bad} == {*refused}


@pytest.mark.parametrize("call", ["by_row", "by_expression", "by_arrow"])
@pytest.mark.in_turn
def test_python_refuses_the_rows_that_its_functions_raise_for(trial, tmp_path, call):
    """Pass: what the function raised is told; the other rows go on."""
    (tmp_path / "steps_that_raise.py").write_text(
        "from pyspark.sql import functions as F\n"
        "number = F.udf(lambda n: None if n is None else int(n) + 1, 'int', useArrow=False)\n"
        "arrow = F.udf(lambda n: None if n is None else int(n) + 1, 'int', useArrow=True)\n"
        "def by_row(frame):\n"
        "    return frame.select('k', (number(F.lower('n')) * 2).alias('n'))\n"
        "def by_arrow(frame):\n"
        "    return frame.select('k', (arrow('n') * 2).alias('n')).where('n > 0 OR n IS NULL')\n"
        "def by_expression(frame):\n"
        "    return frame.select('k', ((F.col('n').cast('int') + 1) * 2).alias('n'))\n"
    )
    options = {"schema": "k STRING, n INT", "folder": str(tmp_path)}
    good, bad = run(trial, document(s=step("python", call=f"steps_that_raise:{call}", **options)))
    assert sorted((row["k"], row["n"]) for row in good) == [("a", 4), ("c", None), ("d", 10)]
    assert list(bad) == ["b"]
    told = (
        "column n fails: ((CAST(" if call == "by_expression" else "raised ValueError: invalid lit"
    )
    assert told in bad["b"]


@pytest.mark.parametrize(
    ("query", "schema"),
    [
        ("SELECT explode(array(k, n)) AS k FROM input", "k STRING"),
        ("SELECT k FROM input UNION ALL SELECT n FROM input", "k STRING"),
    ],
)
def test_a_step_that_makes_other_rows_refuses_none(trial, query, schema):
    """Pass: what can't be served is told before the run, with what to write instead."""
    with pytest.raises(DocumentError, match="computes columns and drops rows"):
        run(trial, document(s=step("sql", query=query, schema=schema)))


FAILING = {
    "select": ({"columns": {"n": "CAST(n AS INT)"}}, "operators.s.with.columns.n"),
    "changelog": ({"key": ["k"], "sequence": "k", "delete": "n = 1"}, "operators.s.with.delete"),
    "sql": ({"query": "SELECT CAST(n AS INT) AS n FROM input", "schema": "n INT"}, "operators.s"),
    "python": ({"call": "steps_that_fail:number", "schema": "n INT"}, "ValueError"),
}


@pytest.mark.parametrize("use", FAILING)
@pytest.mark.parametrize("show_rows", [False, True])
@pytest.mark.in_turn
def test_a_run_that_ends_names_the_row_that_it_ended_for(pipeline, spark, use, show_rows):
    """Pass: node, expression, the row's origin, partition and position; its content if asked for."""
    options, told = FAILING[use]
    (pipeline.folder / "steps_that_fail.py").write_text(
        "from pyspark.sql import functions as F\n"
        "def number(frame):\n"
        "    return frame.select(F.udf(lambda n: n and int(n), 'int')('n').alias('n'))\n"
    )
    made = document(s={"use": use, "from": "row", "with": options})
    made["sinks"] = {"out": pipeline.sink("out", "s")}
    made["operators"]["row"]["on_rejected"] = "drop"
    if use == "changelog":
        made["operators"]["s"]["on_rejected"] = "drop"
    pipeline.document(**made, trigger={"available_now": True})
    pipeline.feed("1.jsonl", ROWS)
    with pytest.raises(PipelineError) as caught:
        pipeline.run(show_rows=show_rows)
    words = str(caught.value)
    assert told in words
    assert "1.jsonl" in words
    assert "row: origin " in words
    assert ", position " in words
    assert ("content: {" in words) == show_rows
    assert ('"one"' in words) == show_rows
    assert "`on_error: reject` of s sends such rows to s.rejected." in words
    assert pipeline.rows("out") == []


@pytest.mark.in_turn
def test_an_error_of_no_row_is_told_at_once(pipeline, spark):
    """Pass: what a sink fails with is not tried again to find a row."""
    made = document(s={"use": "select", "from": "row", "with": {"columns": {"n": "n"}}})
    made["sinks"] = {"out": pipeline.sink("out", "s")}
    pipeline.document(**made, trigger={"available_now": True})
    pipeline.feed("1.jsonl", ["nope"])
    with pytest.raises(PipelineError, match="refused a row, and nobody reads row.rejected"):
        pipeline.run()


def test_a_later_failure_is_told_as_what_it_is(pipeline, spark):
    """Pass: a row of a later batch, another expression's, is named with that one, and not the first."""
    made = document(s=step("select", columns={"k": "CAST(k AS INT)", "n": "CAST(n AS INT)"}))
    made["operators"]["s"]["with"]["on_error"] = "fail"
    made["operators"]["row"]["on_rejected"] = "drop"
    made["sinks"] = {"out": pipeline.sink("out", "s")}
    found = told(
        "[USER_RAISED_EXCEPTION] mainstem-failed:s\x1fcolumns.k fails: CAST(k AS INT)\x1forigin o\x1f"
        "{secret} SQLSTATE: P0001"
    )
    pipeline.document(**made)
    plan = pipeline.plan()
    first = PipelineError("s (operators.s.with.columns.n): [CAST_INVALID_INPUT] The value '?' ...")
    assert str(with_row(found, plan, first)).startswith(
        f"{first}\n  row: origin o\n  content: {{secret}}"
    )
    later = str(with_row(found, plan, None))
    assert later.startswith("s: columns.k fails: CAST(k AS INT)\n  row: origin o")
