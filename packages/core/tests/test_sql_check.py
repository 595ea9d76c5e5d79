"""SQL is looked at by Spark's own analyser before Spark starts: every mistake at once, at its place."""

from __future__ import annotations

import re
from contextlib import closing

import pytest
from mainstem.analysis.process import Process, Remembered
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan

DOCUMENT = """\
pipeline: typos
sources:
  lines: {use: files, with: {path: ./incoming, format: message}}
operators:
  order: {use: decode, from: lines, with: {format: json, schema: "id STRING, cents BIGINT, at TIMESTAMP"}, on_rejected: drop}
  large: {use: select, from: order, with: {where: "cents >> 10 AND (", columns: {a: centz, b: uper(id), ok: id}}}
  many:
    use: select
    from: order
    with:
      columns:
        total: count(*)
        rows: "explode(array(1, 2))"
        next: "lead(cents) OVER (ORDER BY at)"
        wrong: at > 5
        money: CAST(cents AS DECIMAL(12,2))
  asked: {use: sql, from: order, with: {query: "SELECT id, cents + 1 AS n FROM input", schema: "id STRING, n INT"}}
  sorted: {use: sql, from: order, with: {query: "SELECT id FROM input ORDER BY id", schema: "id STRING"}}
  elsewhere: {use: sql, from: order, with: {query: "SELECT id FROM other", schema: "id STRING"}}
  table: {use: changelog, from: order, with: {key: [id], sequence: at, delete: cents}}
sinks:
  out: {use: console, from: [large, large]}
  out2: {use: console, from: many}
  out3: {use: console, from: asked}
  out4: {use: console, from: sorted}
  out5: {use: console, from: elsewhere}
  out6: {use: console, from: table}
"""


@pytest.fixture(scope="module")
def process():
    made = Process(lambda why: pytest.fail(why))
    yield made
    made.close()


def problems(text, analyse):
    try:
        make_plan(text, analyse=analyse)
    except DocumentError as error:
        return error.problems
    return ()


@pytest.mark.in_turn
def test_every_mistake_in_sql_is_told_with_its_line_and_column(process, tmp_path):
    """Pass: syntax, columns, functions, types, what rows can't have and what a query gives, all at once."""
    found = problems(DOCUMENT, Remembered(process, tmp_path))
    told = {(problem.line, problem.key.rpartition(".with.")[2]): problem for problem in found}
    lines = DOCUMENT.splitlines()
    expected = {
        (6, "where"): ("Syntax error at or near '('", "cents >> 10"),
        (6, "columns.a"): ("there is no column 'centz'", "centz"),
        (6, "columns.b"): ("there is no function 'uper'", "uper"),
        (12, "columns.total"): ("has an aggregate function", "count"),
        (13, "columns.rows"): ("has several rows for one", None),
        (14, "columns.next"): ("has a window function", None),
        (15, "columns.wrong"): ("TIMESTAMP", "at > 5"),
        (17, "schema"): ("n is BIGINT, not INT", None),
        (18, "query"): ("keeps no state, and has a sort (ORDER BY)", None),
        (20, "delete"): ("BOOLEAN", "cents}"),
    }
    assert told.keys() == expected.keys()
    for place, (words, at) in expected.items():
        problem = told[place]
        assert words in problem.message, place
        if at is not None and place != (6, "where"):
            assert lines[problem.line - 1].find(at) + 1 == problem.column, place
        for inner in ("~", "+-", "SQLSTATE", "`value`", "__"):
            assert inner not in str(problem), place
    assert told[6, "columns.a"].hint == "Did you mean 'cents'?"
    assert told[6, "columns.b"].hint == "Did you mean 'upper'?"


@pytest.mark.in_turn
def test_what_was_answered_is_kept_by_its_text(process, tmp_path):
    """Pass: the same document asks nothing a second time, and says the same; a damaged answer is asked for."""
    first = problems(DOCUMENT, Remembered(process, tmp_path))

    def nobody(requests):
        raise AssertionError("asked")

    assert problems(DOCUMENT, Remembered(nobody, tmp_path)) == first
    for file in tmp_path.glob("*/*.json"):
        file.write_text("{")
    assert problems(DOCUMENT, Remembered(process, tmp_path)) == first


@pytest.mark.in_turn
def test_types_that_sql_gives_are_known_to_the_plan(process, tmp_path):
    """Pass: the plan has the types of computed columns, and a sink that can't hold one says so."""
    text = """\
pipeline: types
sources: {lines: {use: files, with: {path: ./in, format: message}}}
operators:
  row: {use: select, from: lines, with: {columns: {n: octet_length(value), parts: "split(origin, '/')"}}}
  next: {use: select, from: row, with: {columns: {half: n / 2, first: "parts[0]", parts: parts}}}
sinks: {out: {use: files, from: next, with: {path: ./out, format: %s}}}
"""
    plan = make_plan(text % "parquet", analyse=Remembered(process, tmp_path))
    types = {column.name: column.type for column in plan.nodes["next"].shape.columns}
    assert types == {"half": "double", "first": "string", "parts": "array<string>"}
    with pytest.raises(DocumentError, match="csv can't hold column parts, of type array<string>"):
        make_plan(text % "csv", analyse=Remembered(process, tmp_path))
    assert make_plan(text % "csv").nodes["next"].shape.column("half").type is None


def test_without_java_the_rest_is_checked_and_that_is_said(monkeypatch, tmp_path):
    """Pass: what is missing is told once, and what needs no Java is found all the same."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    told = []
    process = Process(told.append)
    found = problems(
        DOCUMENT.replace("from: [large, large]", "from: lagre"), Remembered(process, tmp_path)
    )
    process.close()
    assert [problem.message for problem in found] == ["'lagre' is no node"]
    assert len(told) == 1


@pytest.mark.in_turn
def test_why_java_did_not_answer_is_told(monkeypatch, tmp_path):
    """Pass: the last that its process said, and what to ask; settings of other programs do it no harm."""
    told = []
    monkeypatch.setenv("MASTER", "nonsense")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--nonsense")
    with closing(Process(told.append)) as process:
        assert problems(DOCUMENT, process)
    assert told == []
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with closing(Process(told.append)) as process:
        problems(DOCUMENT, process)
    assert re.fullmatch(r"Java did not answer: .+ \(mainstem doctor tells more\)", told[0])


def test_all_kinds_of_mistakes_are_told_at_once():
    """Pass: a wrong key, a wrong duration, an unknown word, name, column and output, each with its line."""
    text = """\
pipeline: typos
trigger: {every: 2 sec onds}
sources:
  lines: {use: file, with: {path: ./incoming}}
  more: {use: files, form: x, with: {pth: ./incoming, format: message}}
operators:
  order: {use: decode, from: linse, with: {format: json, schema: "id STRING, cents BIGINT"}}
  keyed: {use: changelog, from: order, with: {key: [idd], sequence: cents}}
  typed: {use: decode, from: more, with: {format: json, schema: "id STRNG"}}
  large: {use: select, from: order, with: {columns: {id: id}}}
sinks:
  out: {use: files, from: large.reject, format: csv, with: {path: ./o}}
"""
    found = problems(text, None)
    told = {(problem.line, problem.message.split(",")[0].split("; ")[0]) for problem in found}
    words = [
        (2, "unknown unit 'sec'"), (4, "no installed distribution brings a source 'file'"),
        (5, "unknown key 'form'"), (5, "unknown key 'pth'"), (5, "key 'path' is missing"),
        (7, "'linse' is no node"), (8, "there is no column 'idd'"), (9, "Did you mean 'string'?"),
        (12, "'large' has no output 'reject'"), (12, "unknown key 'format'"),
    ]  # fmt: skip
    for line, text in words:
        assert any(at == line and text in said for at, said in told) or any(
            problem.line == line and text in problem.message for problem in found
        ), (line, text, sorted(told))
    (stray,) = [problem for problem in found if problem.message == "unknown key 'format'"]
    assert "with: {format: ...}" in stray.hint
