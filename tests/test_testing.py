"""`mainstem test`: a document is tested by the file beside it, without its real systems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mainstem import DocumentError
from mainstem.cli.app import app
from mainstem.testing.comparing import differences
from mainstem.testing.running import run_tests
from ruamel.yaml import YAML
from totals_document import BASE, changed, write
from typer.testing import CliRunner


def at(minute: int, second: int = 0) -> str:
    return f"2026-01-01T00:{minute:02}:{second:02}Z"


def row(minute: int, second: int = 0, **more: Any) -> dict[str, Any]:
    return {"k": "a", "at": at(minute, second), **more}


def beside(pipeline, **tests: Any) -> Path:
    """Write a file of tests; `document` and `env` may be among its keys."""
    top = {name: tests.pop(name) for name in ("document", "env") if name in tests}
    file = pipeline.folder / "pipeline.test.yaml"
    with file.open("w") as text:
        YAML(typ="safe", pure=True).dump({**top, "tests": tests}, text)
    return file


def problems(file: Path) -> set[tuple[str, str, str]]:
    """Return what is wrong in a file of tests, each with its key; each must have a line."""
    with pytest.raises(DocumentError) as caught:
        next(run_tests(file))
    assert all(problem.file == str(file) and problem.line for problem in caught.value.problems)
    return {(problem.key, problem.message, problem.hint) for problem in caught.value.problems}


def rows(*given: Any) -> dict[str, Any]:
    return {"rows": {"lines": list(given)}}


@pytest.mark.in_turn
def test_rows_time_and_crashes_give_what_is_expected(pipeline, monkeypatch):
    """Pass: late rows, refused ones and a repeated batch come out right; no real system was asked."""
    monkeypatch.delenv("PLACE", raising=False)
    document = changed(sinks__out__with={"path": "${env:PLACE}", "format": "parquet"})
    write(pipeline, document)
    file = beside(
        pipeline,
        env={"PLACE": "./nowhere"},
        counted={
            "steps": [rows(row(1), row(1, 30), "nonsense"), "crash", rows(row(3)), "crash"],
            "expect": {
                "out": [{"k": "a", "n": 2, "window_start": "2026-01-01 00:01:00"}],
                "row.rejected": [{"reason": "not JSON", "payload": "nonsense"}],
                "row": [row(1), row(1, 30), row(3)],
            },
        },
        late={
            "steps": [rows(row(1)), {"advance": {"row": at(5)}}, rows(row(1, 20), row(6))],
            "expect": {"out": [{"n": 1}]},
        },
    )
    results = {result.name: result for result in run_tests(file)}
    assert [results[name].error for name in results] == ["", ""]
    assert [results[name].differences for name in results] == [[], []]
    assert not (pipeline.folder / "nowhere").exists()
    assert not (pipeline.folder / "checkpoints").exists()


@pytest.mark.in_turn
def test_differences_are_printed_as_a_table_and_end_with_exit_1(pipeline):
    """Pass: what is missing, what nobody expected, and the count of each."""
    write(pipeline, BASE)
    beside(
        pipeline,
        wrong={"steps": [rows(row(1))], "expect": {"row": [{"k": "b"}], "out": []}},
        right={"steps": [rows(row(1))], "expect": {"row": [{"k": "a"}]}},
    )
    result = CliRunner().invoke(app, ["test", str(pipeline.file)])
    assert result.exit_code == 1
    for words in ("FAILED  wrong", "passed  right", "missing", "unexpected", "1 passed, 1 failed"):
        assert words in result.output
    result = CliRunner().invoke(app, ["test", str(pipeline.file), "-k", "right"])
    assert (result.exit_code, "1 passed, 0 failed" in result.output) == (0, True)
    result = CliRunner().invoke(app, ["test", str(pipeline.file), "-k", "none of these"])
    assert result.exit_code == 1
    assert "no test has 'none of these' in its name" in result.output


def test_messages_and_typed_rows_can_be_given(pipeline):
    """Pass: bytes, headers and keys of messages; columns of other sources; their identity."""
    typed = {"path": "./typed", "format": "jsonlines", "schema": "n INT, tags ARRAY<STRING>"}
    pipeline.document(
        sources={
            "lines": {"use": "files", "with": {"path": "./in", "format": "message"}},
            "typed": {"use": "files", "with": typed},
        },
        operators={
            "headed": {
                "use": "select",
                "from": "lines",
                "with": {
                    "columns": {
                        "value": "CAST(value AS STRING)",
                        "kind": "CAST(headers['kind'] AS STRING)",
                        "origin": "origin",
                    }
                },
            }
        },
        sinks={"out": pipeline.sink("out", "headed"), "two": pipeline.sink("two", "typed")},
    )
    file = beside(
        pipeline,
        both={
            "steps": [
                {
                    "rows": {
                        "lines": [{"value": "x", "headers": {"kind": "y"}}, {"a": 1}],
                        "typed": [{"n": 1, "tags": ["p", "q"]}, {"n": None}],
                    }
                }
            ],
            "expect": {
                "out": [
                    {"value": "x", "kind": "y", "origin": "lines"},
                    {"value": '{"a": 1}', "kind": None},
                ],
                "two": [{"n": 1, "tags": ["p", "q"]}, {"n": None, "tags": None}],
            },
        },
    )
    (result,) = run_tests(file)
    assert (result.error, result.differences) == ("", [])


def test_rows_of_a_sources_outputs_can_be_given(pipeline):
    """Pass: of tables, as inserts unless they say otherwise; what a source refuses; no such output is told."""
    table = {"key": ["id"], "schema": "id BIGINT, name STRING"}
    url = "mysql://reader:secret@nowhere/shop"
    pipeline.document(
        sources={"shop": {"use": "mysql", "with": {"url": url, "tables": {"customers": table}}}},
        operators={},
        sinks={
            "out": {
                "use": "sql",
                "from": "shop.customers",
                "deliver": "idempotent",
                "with": {"url": "sqlite:///copy.db", "table": "customers"},
            },
            "bad": pipeline.sink("bad", "shop.rejected"),
        },
    )
    file = beside(
        pipeline,
        copied={
            "steps": [
                {
                    "rows": {
                        "shop.customers": [{"id": 1, "name": "Ada"}, {"id": 2}],
                        "shop.rejected": [{"reason": "too long", "payload": "x"}],
                    }
                },
                {
                    "rows": {
                        "shop.customers": [{"id": 1, "_change_type": "delete"}],
                        "shop.rejected": [],
                    }
                },
            ],
            "expect": {
                "out": [
                    {"id": 1, "name": "Ada", "_change_type": "insert"},
                    {"id": 2, "name": None, "_change_type": "insert"},
                    {"id": 1, "_change_type": "delete"},
                ],
                "bad": [{"node": "shop", "reason": "too long", "payload": "x"}],
            },
        },
    )
    results = {result.name: result for result in run_tests(file)}
    assert (results["copied"].error, results["copied"].differences) == ("", [])
    assert not (pipeline.folder / "copy.db").exists()
    file = beside(
        pipeline,
        wrong={"steps": [{"rows": {"shop.customer": [{"id": 1}]}}], "expect": {}},
        unknown={"steps": [{"rows": {"shop.customers": [{"nme": 1}, {"id": 1}]}}], "expect": {}},
    )
    assert problems(file) == {
        ("tests.wrong.steps.0.rows.shop.customer", "there is no source 'shop.customer'", "Did you mean 'shop.customers'?"),
        ("tests.unknown.steps.0.rows.shop.customers.0", "shop.customers has no column 'nme'. Columns: id, name.", ""),
    }  # fmt: skip


def test_what_spark_complains_of_is_told_once(pipeline, capfd):
    """Pass: as a problem of the document, and not by PySpark's own log too."""
    encode = {"use": "encode", "from": "lines", "with": {"format": "raw", "timestamp": "array(1)"}}
    pipeline.document(
        sources={"lines": {"use": "files", "with": {"path": "./in", "format": "text"}}},
        operators={"message": encode},
        sinks={"out": pipeline.sink("out", "message")},
    )
    file = beside(pipeline, one={"steps": [{"rows": {"lines": [{"value": "x"}]}}], "expect": {}})
    (result,) = run_tests(file)
    assert "operators.message" in result.error
    assert "array" in result.error
    told = capfd.readouterr()
    assert "DATATYPE_MISMATCH" not in told.out + told.err


def test_what_is_wrong_in_a_file_of_tests_is_told(pipeline):
    """Pass: keys with their lines; names that the document has not; rows that do not fit; of every file."""
    write(pipeline, BASE)
    file = beside(pipeline, one={"steps": [{"rows": {}, "advance": {}}], "expct": {}})
    with pytest.raises(DocumentError) as caught:
        list(run_tests(file))
    assert "pipeline.test.yaml:" in str(caught.value)
    assert "give one of `rows` and `advance`" in str(caught.value)
    file = beside(
        pipeline,
        source={"steps": [{"rows": {"line": []}}, {"advance": {"row": "soon"}}], "expect": {}},
        time={"steps": [{"advance": {"lines": at(1)}}], "expect": {}},
        output={"steps": [rows()], "expect": {"row.late": []}, "answers": {"row": []}},
        headers={"steps": [rows({"value": "x", "headers": "y"})], "expect": {}},
    )
    assert problems(file) == {
        ("tests.source.steps.0.rows.line", "there is no source 'line'", "Did you mean 'lines'?"),
        ("tests.source.steps.1.advance.row", "expected an ISO 8601 time, not 'soon'", ""),
        ("tests.time.steps.0.advance.lines", "there is no node with a watermark 'lines'", "There are: row."),
        ("tests.output.expect.row.late", "there is no sink or output 'row.late'", "Did you mean 'row.rejected'?"),
        ("tests.output.answers.row", "there is no node that asks an external system 'row'", "There is none."),
        ("tests.headers.steps.0.rows.lines.0", "lines, headers: expected a mapping, not 'y'", ""),
    }  # fmt: skip
    other = file.with_name("other.test.yaml")
    other.write_text("document: pipeline.yaml\ntests: {}\n")
    result = CliRunner().invoke(app, ["test", str(file), str(other)])
    assert result.exit_code == 2
    assert f"{other}:2:8: tests: " in result.output
    assert "there is no source 'line'" in result.output


def test_rows_are_compared_whatever_their_order_and_spelling():
    """Pass: rows match once each; times, numbers and bytes as people write them."""
    found = [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}]
    assert differences([{"a": 1}, {"a": 1, "b": "x"}], found) == ([], [])
    assert differences([{"a": 1}], found) == ([], [found[1]])
    assert differences([{"a": 2}], found) == ([{"a": 2}], found)
    assert differences([{"c": None}], [{"a": 1}]) == ([{"c": None}], [{"a": 1}])
    for expected, value in (
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.000000Z"),
        ("2026-01-01 00:00:00", "2026-01-01T00:00:00.000000Z"),
        (0.3, 0.1 + 0.2),
        (1, 1.0),
        ({"x": [1, {"y": "2026-01-01"}]}, {"x": [1, {"y": "2026-01-01T00:00:00Z"}]}),
    ):
        assert differences([{"a": expected}], [{"a": value}]) == ([], [])
    for expected, value in ((True, 1), ("1", 1), ([1], [1, 2]), (None, 0), ({"x": 1}, {})):
        assert differences([{"a": expected}], [{"a": value}])[0] == [{"a": expected}]


def test_numbers_are_compared_as_far_as_they_say():
    """Pass: whole numbers and prices exactly, sums of binary numbers nearly."""
    for one, other in ((1767225600001, 1767225600002), (12345678901.23, 12345678901.24), (1, 1.5)):
        assert differences([{"n": one}], [{"n": other}]) == ([{"n": one}], [{"n": other}])
    for one, other in ((0.3, 0.1 + 0.2), (1, 1.0), (0.333333333333, 1 / 3)):
        assert differences([{"n": one}], [{"n": other}]) == ([], [])


def test_every_expected_row_finds_one_if_there_are_enough():
    """Pass: one that fits several leaves to another the only one that this fits, in any order."""
    found = [{"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 4, "b": 2}]
    for rows in (found, found[::-1]):
        assert differences([{"a": 1}, {"b": 2}, {"a": 4}], rows) == ([], [])
        assert differences([{"b": 2}, {"a": 1}, {"b": 3}], rows) == ([], [])
        assert differences([{"a": 1}, {"a": 1}, {"a": 1}], rows) == ([{"a": 1}], [{"a": 4, "b": 2}])
    assert differences([{"a": 1}] * 500, [{"a": 1, "b": n} for n in range(499)]) == ([{"a": 1}], [])


@pytest.mark.in_turn
def test_thousands_of_rows_are_compared_while_one_waits():
    """Pass: in order, in disorder, and alike, some of them missing."""
    rows = [{"n": n, "m": n % 7} for n in range(3000)]
    assert differences(rows, rows[::-1]) == ([], [])
    alike = [{"m": 1}] * 1500
    missing, unexpected = differences(alike, [{"m": 1, "n": n} for n in range(1400)])
    assert (len(missing), unexpected) == (100, [])
