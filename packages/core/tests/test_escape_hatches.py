"""`sql`, `python` and `spark`: what is wrong with their options is said before Spark starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from mainstem import DocumentError
from mainstem.builtin.python_call import PythonCall
from mainstem.builtin.spark_format import SparkSource
from mainstem.contracts.guarantee import Level
from mainstem.plan.build import make_plan
from mainstem.plan.model import Plan
from ruamel.yaml import YAML

ROWS = {
    "use": "spark",
    "with": {
        "format": "rate",
        "schema": "timestamp TIMESTAMP, value BIGINT",
        "identity": ["value"],
    },
}
SQL = {"query": "SELECT value FROM input", "schema": "value BIGINT"}
CALL = {"call": "rules:apply", "schema": "value BIGINT"}
OUT = {"format": "noop"}


def plan(
    operator: dict[str, Any] | None = None,
    *,
    stream: Any = "rows",
    sink: dict[str, Any] = OUT,
    source: dict[str, Any] = ROWS,
) -> Plan:
    """Return the plan of a document with one source, perhaps one operator, and one sink."""
    operators = {"step": {**operator, "from": stream}} if operator else {}
    return make_plan(
        {
            "pipeline": "test",
            "sources": {"rows": source},
            "operators": operators,
            "sinks": {"out": {"use": "spark", "from": [*operators, "rows"][0], "with": sink}},
        }
    )


def problems(*args: Any, **named: Any) -> str:
    with pytest.raises(DocumentError) as error:
        plan(*args, **named)
    return str(error.value)


@pytest.mark.parametrize(
    ("use", "options", "told"),
    [
        ("sql", {"query": "SELECT 1"}, "key 'schema' is missing"),
        ("sql", {"schema": "v INT"}, "key 'query' is missing"),
        ("sql", {**SQL, "tables": []}, "operators.step.with.tables"),
        ("sql", {**SQL, "tables": ["a", "A"]}, "names a table twice"),
        ("sql", {**SQL, "tables": ["a-b"]}, "expected a name that matches"),
        ("sql", {**SQL, "schema": "_v INT"}, "names that begin with _ are reserved"),
        ("sql", {**SQL, "identity": ["valu"]}, "Did you mean 'value'?"),
        ("sql", {**SQL, "identity": ["value"], "row_wise": True}, "goes without `row_wise`"),
        ("sql", {**SQL, "tables": ["a", "b"], "row_wise": True}, "is for one table"),
        ("python", {**CALL, "call": "rules.apply"}, "expected a name that matches"),
        ("python", {**CALL, "options": {"input": 1}}, "'input' is a table already"),
    ],
)
def test_wrong_options_of_an_operator_are_told(use, options, told):
    """Pass: each mistake is a problem of the document, in these words."""
    assert told in problems({"use": use, "with": options})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"format": "text"}, "key 'schema' is missing"),
        ({"format": "text", "schema": "_value STRING"}, "names that begin with _ are reserved"),
        ({"format": "text", "schema": "value STRING", "identity": ["v"]}, "there is no column 'v'"),
        (
            {"format": "text", "schema": "value STRING", "path": "a", "options": {"path": "b"}},
            "has a `path`",
        ),
    ],
)
def test_wrong_options_of_the_source_are_told(options, told):
    """Pass: each mistake is a problem of the document, in these words."""
    assert told in problems(source={"use": "spark", "with": options})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"format": "noop", "mode": "ignore"}, "sinks.out.with.mode"),
        ({"format": "noop", "path": "a", "table": "b"}, "goes without `path`"),
    ],
)
def test_wrong_options_of_the_sink_are_told(options, told):
    """Pass: each mistake is a problem of the document, in these words."""
    assert told in problems(sink=options)


def test_tables_are_ports():
    """Pass: both ports are wanted by name, and only then is the document right."""
    two = {"use": "sql", "with": {**SQL, "tables": ["orders", "cities"]}}
    assert "has 2 ports; expected {orders: NAME, cities: NAME}" in problems(two)
    assert "port 'cities' is not connected" in problems(two, stream={"orders": "rows"})
    made = plan(two, stream={"orders": "rows", "cities": "rows"})
    assert list(made.nodes["step"].inputs) == ["orders", "cities"]


def test_a_row_wise_step_keeps_identity_and_others_have_what_they_declare():
    """Pass: the shape's identity, and `row_wise`, are as the options say."""
    for extra, row_wise, identity in (
        ({}, False, ()),
        ({"row_wise": True}, True, ()),
        ({"identity": ["value"]}, False, ("value",)),
    ):
        for use, options in (("sql", SQL), ("python", CALL)):
            node = plan({"use": use, "with": {**options, **extra}}).nodes["step"]
            assert node.row_wise is row_wise
            assert node.identity == identity


@pytest.mark.parametrize("row_wise", [True, False])
def test_a_step_of_the_users_takes_no_changelog(row_wise):
    """Pass: refused, with the way out: its former and deleted rows would be events like others."""
    table = {"use": "changelog", "from": "rows", "with": {"key": ["value"], "sequence": "value"}}
    step = {"use": "sql", "from": "table", "with": {**SQL, "row_wise": row_wise}}
    with pytest.raises(DocumentError, match="takes events: .*former and deleted rows"):
        make_plan(
            {
                "pipeline": "test",
                "sources": {"rows": ROWS},
                "operators": {"table": table, "step": step},
                "sinks": {"out": {"use": "spark", "from": "step", "with": OUT}},
            }
        )


def test_what_a_format_has_to_do_is_printed_with_the_guarantee():
    """Pass: at-least-once with both assumptions in words; a socket can lose what it read."""
    promise = plan().nodes["out"].promise
    assert promise.level is Level.AT_LEAST_ONCE
    assert set(promise.assumptions) == {
        "rows: the format rate gives the same rows when a batch is read again",
        "out: the format noop keeps what it has written when it says so",
    }
    socket = {"use": "spark", "with": {"format": "socket", "schema": "value STRING"}}
    assert plan(source=socket).nodes["out"].promise.may_lose
    newest = plan(sink={**OUT, "mode": "overwrite"}).nodes["out"].promise
    assert any("only the newest is wanted" in text for text in newest.assumptions)


def test_paths_are_relative_to_the_document_and_urls_stay(tmp_path):
    """Pass: each place is looked for where the document lies; a URL is not touched."""
    file = tmp_path / "pipeline.yaml"
    options = {
        "format": "parquet",
        "schema": "v INT",
        "path": "in",
        "jars": ["lib/a.jar", "s3a://jars/b.jar"],
        "packages": ["g:a:1"],
    }
    sink = {"use": "spark", "from": "step", "with": {"format": "parquet", "path": "s3a://b/out"}}
    with file.open("w") as text:
        YAML(typ="safe").dump(
            {
                "pipeline": "test",
                "sources": {"rows": {"use": "spark", "with": options}},
                "operators": {"step": {"use": "python", "from": "rows", "with": CALL}},
                "sinks": {"out": sink},
            },
            text,
        )
    nodes = make_plan(file).nodes
    source, step = nodes["rows"].component, nodes["step"].component
    assert isinstance(source, SparkSource)
    assert isinstance(step, PythonCall)
    assert source.options.path == str(tmp_path / "in")
    assert source.needs().jars == (str(tmp_path / "lib/a.jar"), "s3a://jars/b.jar")
    assert source.needs().packages == ("g:a:1",)
    assert nodes["out"].component.options.path == "s3a://b/out"
    assert Path(step.options.folder) == tmp_path


def test_planning_imports_neither_spark_nor_the_users_module():
    """Pass: a document with all of them is planned without the module `rules`, which is nowhere."""
    plan({"use": "python", "with": CALL})
    assert "rules" not in sys.modules
