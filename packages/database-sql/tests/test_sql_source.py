"""The source in a document: its options, what the plan says of it, and what a run shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from mainstem import DocumentError, MainstemError, PipelineError
from mainstem.plan.build import make_plan
from mainstem.plan.rendering import as_json
from mainstem_database_sql.source.source import SQLSource
from sql_databases import ask
from test_sql_source_driver import Place

GIVEN = {
    "url": "sqlite:///t.db",
    "table": "t",
    "schema": "id BIGINT, at TIMESTAMP, d DATE, x DOUBLE",
}
POLL = {**GIVEN, "mode": "poll", "column": "id", "settle": "10 seconds"}


def document(**options):
    return {
        "pipeline": "test",
        "checkpoint": "./checkpoints",
        "sources": {"rows": {"use": "sql", "with": options}},
        "sinks": {"out": {"use": "console", "from": "rows"}},
    }


def plan(**options):
    return make_plan(document(**options))


# -- without Spark ----------------------------------------------------------------------------


def test_a_plan_needs_neither_spark_nor_a_driver():
    """Nothing heavy is imported to check a document, with a source and with a sink."""
    whole = document(**POLL)
    kept = {"url": "sqlite:///kept.db", "table": "kept"}
    whole["sinks"]["kept"] = {"use": "sql", "from": "rows", "with": kept}
    code = (
        "import json, sys; from mainstem.plan.build import make_plan; "
        f"make_plan(json.loads({json.dumps(json.dumps(whole))})); "
        "heavy = {'pyspark', 'pyarrow', 'sqlalchemy', 'psycopg', 'pymysql', 'pandas'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        (
            {**GIVEN, "schema": "id BIGINT, v ARRAY<INT>"},
            "schema",
            "column v: array<int> is not read",
        ),
        (
            {**GIVEN, "schema": "id BIGINT, v VARCHAR(9)"},
            "schema",
            "column v: varchar(9) is not read",
        ),
        (
            {**GIVEN, "schema": "id BIGINT, _v INT"},
            "schema",
            "names that begin with _ are reserved",
        ),
        ({**GIVEN, "key": ["no"]}, "key", "there is no column 'no'"),
        ({**GIVEN, "key": ["id", "id"]}, "key", "the key has 'id' twice"),
        ({**GIVEN, "column": "id"}, "column", "`column` is for `mode: poll`"),
        ({**GIVEN, "settle": "1 s"}, "settle", "`settle` is for `mode: poll`"),
        ({**GIVEN, "mode": "poll"}, "mode", "`mode: poll` needs a `column`"),
        ({**GIVEN, "mode": "poll", "column": "id"}, "mode", "`mode: poll` needs `settle`"),
        ({**POLL, "column": "no"}, "column", "there is no column 'no'"),
        ({**POLL, "column": "d"}, "column", "the column 'd' is DATE, and polled are"),
        ({**POLL, "column": "x"}, "column", "the column 'x' is DOUBLE, and polled are"),
        (
            {**POLL, "schema": "id DECIMAL(9,2)"},
            "column",
            "the column 'id' is DECIMAL(9,2), and polled",
        ),
        ({**POLL, "settle": "0 s"}, "settle", "expected more than 0 seconds"),
        ({**POLL, "every": "0 s"}, "every", "expected more than 0 seconds"),
    ],
)
def test_options_that_do_not_fit_are_named(options, key, words):
    with pytest.raises(DocumentError) as caught:
        plan(**options)
    (problem,) = caught.value.problems
    assert problem.key == f"sources.rows.with.{key}"
    assert words in problem.message


def test_the_plan_says_what_a_snapshot_and_a_poll_promise():
    made = as_json(plan(**GIVEN, key=["id"]))
    (sink,) = made["guarantees"]
    assert sink["reasons"] == ["out: a batch that is retried after a failure is written again"]
    once = "t as it is when the checkpoint begins is enough: it is read once, and no later change of it"
    assert sink["assumptions"] == [
        f"rows: {once} comes",
        "rows: no two rows of t have the same id",
    ]
    assert made["nodes"][0]["identity"] == ["id"]
    made = as_json(plan(**{**POLL, "column": "at", "key": ["id"]}))
    (sink,) = made["guarantees"]
    assert sink["reasons"] == ["out: a batch that is retried after a failure is written again"]
    late = "each row of t is committed within 10 seconds of the time in at, by the database's clock"
    assert sink["assumptions"] == [
        f"rows: {late}: a later one is never read",
        "rows: deletes need not be seen: they are not",
        "rows: whoever changes a row moves its at on: other updates are not seen",
        "rows: of several updates of a row between two polls the last is enough",
        "rows: no two rows of t have the same id",
    ]
    assert made["nodes"][0]["identity"] == ["id", "at"]
    (sink,) = as_json(plan(**POLL))["guarantees"]
    again = "a row whose id moves on comes again, and no `key` tells which"
    assert sink["reasons"][0] == f"rows can give an event twice: {again}"
    assert sink["assumptions"][0] == (
        "rows: each row of t is committed within 10 seconds of when an equal or higher id was first "
        "seen: a later one is never read"
    )
    assert as_json(plan(**POLL))["nodes"][0]["identity"] == []


# -- with Spark -------------------------------------------------------------------------------


def table(pipeline, rows=5):
    url = f"sqlite:///{pipeline.folder}/t.db"
    ask(url, "CREATE TABLE t (id INTEGER, name TEXT)")
    ask(url, "INSERT INTO t VALUES " + ", ".join(f"({n}, 'name {n}')" for n in range(rows)))
    return url


def reads(pipeline, url, sinks=("out",), **options):
    """Write the document of a pipeline with one source, read by each sink in a query of its own."""
    given = {"url": url, "table": "t", "schema": "id BIGINT, name STRING", **options}
    return pipeline.document(
        sources={"rows": {"use": "sql", "with": given}},
        sinks={name: pipeline.sink(name, "rows", query="own") for name in sinks},
    )


def numbers(pipeline, name="out"):
    return sorted(row["id"] for row in pipeline.rows(name))


def test_a_table_that_does_not_fit_is_a_problem_of_the_document(pipeline):
    """Found before the first query, by the key of the option; the same words for a missing table."""
    url = table(pipeline)
    for options, key, words in (
        ({"table": "none"}, "table", "there is no table none in sqlite "),
        ({"schema": "id BIGINT, nam STRING"}, "schema", "it has no column nam, but id, name"),
    ):
        reads(pipeline, url, **options)
        with pytest.raises(DocumentError) as caught:
            pipeline.run()
        (problem,) = caught.value.problems
        assert problem.key == f"sources.rows.with.{key}"
        assert words in problem.message
        assert not (
            pipeline.folder / "checkpoints" / "test" / "queries" / "out" / "offsets"
        ).exists()


@pytest.mark.in_turn
def test_what_goes_wrong_in_a_run_is_told_in_full(pipeline):
    """Spark shows the first line of a Python traceback; ours is not lost behind it."""
    url = table(pipeline)
    reads(pipeline, url, schema="id BIGINT, name INT")
    with pytest.raises(
        PipelineError, match="table t: column name has a value .str. that is no INT"
    ):
        pipeline.run()


@pytest.mark.in_turn
def test_two_queries_read_one_snapshot_and_one_begun_anew_the_present(pipeline):
    url = table(pipeline)
    reads(pipeline, url, sinks=("out", "more"))
    pipeline.run()
    ask(url, "INSERT INTO t VALUES (5, 'later')")
    pipeline.run()
    assert numbers(pipeline) == numbers(pipeline, "more") == list(range(5))
    pipeline.run(fresh=["more"])
    assert numbers(pipeline) == list(range(5))
    assert numbers(pipeline, "more") == sorted([*range(5), *range(6)])


@pytest.mark.in_turn
def test_no_credential_is_shown(pipeline, postgres, capfd, monkeypatch):
    """Neither in plans, nor in a checkpoint, nor in errors, nor in all that Spark logs."""
    with Place("postgres", postgres.url) as place:
        place.ask("CREATE TABLE {t} (id BIGINT, name TEXT)")
        place.rows(1, 2)
        url = place.url.replace("//postgres@", "//postgres:sesame@")
        plans = []
        load = SQLSource.load

        def spied(self, ctx):
            frame = load(self, ctx)
            plans.append(frame._jdf.queryExecution().analyzed().treeString())
            return frame

        monkeypatch.setattr(SQLSource, "load", spied)
        reads(pipeline, url, table=place.table)
        pipeline.run(debug=True)
        assert numbers(pipeline) == [1]
    reads(pipeline, url, table=place.table, mode="poll", column="id", settle="1 s")
    with pytest.raises(MainstemError) as caught:
        pipeline.run(debug=True)
    out, err = capfd.readouterr()
    files = (file for file in (pipeline.folder / "checkpoints").rglob("*") if file.is_file())
    stored = b"".join(file.read_bytes() for file in files).decode(errors="replace")
    assert re.search(r"\brows_[0-9a-f]{12}\b", plans[0])
    assert place.table in str(caught.value)
    assert place.table in stored
    for text in (*plans, str(caught.value), out, err, stored):
        assert "sesame" not in text


@pytest.mark.in_turn
def test_tasks_read_a_snapshot_in_parts(pipeline):
    """Several tasks share the rows of one batch, and each row comes once."""
    url = f"sqlite:///{pipeline.folder}/t.db"
    ask(url, "CREATE TABLE t (id INTEGER, name TEXT)")
    ask(
        url,
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 44999) "
        "INSERT INTO t SELECT i, 'name ' || i FROM n",
    )
    reads(pipeline, url)
    pipeline.run()
    rows = pipeline.rows("out")
    assert len(rows) == 45_000
    assert {row["id"] for row in rows} == set(range(45_000))
    assert all(row["name"] == f"name {row['id']}" for row in rows)
    assert len(list((pipeline.folder / "out").rglob("*.json"))) == 2, "not read by two tasks"
