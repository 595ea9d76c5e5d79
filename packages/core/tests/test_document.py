"""Every kind of wrong document: file, line, key, what was expected and the nearest right word."""

from __future__ import annotations

import json
import os
import textwrap
import warnings
from pathlib import Path

import pytest
from mainstem.document.reading import read_text
from mainstem.errors import DocumentError, Problem
from mainstem.plan.build import make_plan

RIGHT = """\
pipeline: test
sources:
  lines: {use: files, with: {path: in, format: message}}
operators:
  row: {use: decode, from: lines, with: {format: json, schema: "k STRING, v INT"}, on_rejected: drop}
sinks:
  out: {use: console, from: row}
"""


def problems(tmp_path: Path, text: str) -> list[Problem]:
    file = tmp_path / "pipeline.yaml"
    file.write_text(textwrap.dedent(text))
    with pytest.raises(DocumentError) as failure:
        make_plan(file)
    assert all(problem.file == str(file) for problem in failure.value.problems)
    return list(failure.value.problems)


def test_the_right_document_is_right(tmp_path):
    """Pass: the text that the cases below break has a plan."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(RIGHT)
    assert list(make_plan(file).nodes) == ["lines", "row", "out"]


CASES = {
    "duplicate key": ("pipeline: test\n", "pipeline: test\npipeline: again\n", 2, "pipeline", "stands twice; first in line 1", ""),
    "unknown key": ("on_rejected: drop", "on_reject: drop", 5, "operators.row.on_reject", "unknown key 'on_reject'", "Did you mean 'on_rejected'?"),
    "unknown top key": ("pipeline: test\n", "pipeline: test\nsource: {}\n", 2, "source", "unknown key 'source'", "Did you mean 'sources'?"),
    "unknown option": ("format: message", "format: message, max_file: 3", 3, "sources.lines.with.max_file", "unknown key 'max_file'", "Did you mean 'max_files'?"),
    "missing option": ("path: in, ", "", 3, "sources.lines.with.path", "key 'path' is missing", ""),
    "wrong choice": ("format: message", "format: messages", 3, "sources.lines.with.format", "expected 'message', 'text', 'jsonlines', 'csv' or 'parquet', not 'messages'", ""),
    "wrong type": ("format: message", "format: message, max_files: many", 3, "sources.lines.with.max_files", "expected an integer, not 'many'", ""),
    "text for a number": ("format: message", "format: message, max_files: '3'", 3, "sources.lines.with.max_files", "expected an integer", ""),
    "out of range": ("format: message", "format: message, max_files: 0", 3, "sources.lines.with.max_files", "greater than 0", ""),
    "wrong schema": ("k STRING, v INT", "k STRING, v INTT", 5, "operators.row.with.schema", "expected a type", ""),
    "name": ("  out:", "  Out:", 7, "sinks.Out", "expected a name that matches", ""),
    "missing node": ("from: row", "from: rows", 7, "sinks.out.from", "'rows' is no node", "Did you mean 'row'?"),
    "missing output": ("from: row", "from: row.rejects", 7, "sinks.out.from", "'row' has no output 'rejects'", "Did you mean 'rejected'?"),
    "sink as input": ("from: lines", "from: out", 5, "operators.row.from", "'out' is a sink", "Nodes: lines, row."),
    "shape": ("from: lines", "from: row.rejected", 5, "operators.row.from", "a cycle: row -> row", ""),
    "no sink": ("  out: {use: console, from: row}\n", "  {}\n", 7, "sinks", "at least 1", ""),
    "no sinks key": ("sinks:\n  out: {use: console, from: row}\n", "", 1, "sinks", "key 'sinks' is missing", ""),
    "two names": ("  out:", "  row:", 7, "sinks.row", "already that of a node in `operators`", ""),
    "unset variable": ("path: in", "path: '${env:MAINSTEM_NOT_SET}'", 3, "sources.lines.with.path", "variable MAINSTEM_NOT_SET is not set", "Set it, or write ${env:MAINSTEM_NOT_SET:-default}."),
    "variable of bytes": ("path: in", "path: '${env:MAINSTEM_BYTES}'", 3, "sources.lines.with.path", "variable MAINSTEM_BYTES is not UTF-8 text", ""),
    "half a character": ("path: in", 'path: "\\uD83D"', 3, "sources.lines.with.path", "expected Unicode text", ""),
    "half a character in a key": ("path: in", 'path: in, "\\uD83D": 1', 3, "sources.lines.with", "a key must be Unicode text", ""),
    "missing file": ("path: in", "path: '${file:no.txt}'", 3, "sources.lines.with.path", "No such file", ""),
    "no end of a reference": ("path: in", "path: '${env:X'", 3, "sources.lines.with.path", "is no reference", "Write $$ for a plain $."),
    "a reference without quotes": ("path: in", "path: ${env:X}", 3, "", "not YAML", "in quotes"),
    "columns without quotes": ('"k STRING, v INT"', "k STRING, v DECIMAL(10,2)", 5, "operators.row.with.v DECIMAL(10", "unknown key 'v DECIMAL(10'", "in quotes"),
    "no reference": ("path: in", "path: '${HOME}'", 3, "sources.lines.with.path", "is no reference", "Write $$ for a plain $."),
    "tag": ("path: in", "path: !!python/name:os.system x", 3, "sources.lines.with.path", "is not known here", ""),
    "port": ("from: lines", "from: {left: lines}", 5, "operators.row.from.left", "has no port 'left'", "Ports: input."),
    "bad trigger": ("pipeline: test\n", "pipeline: test\ntrigger: {every: 1 second, available_now: true}\n", 2, "trigger", "give one of", ""),
    "flush alone": ("pipeline: test\n", "pipeline: test\ntrigger: {every: 1 second, flush: true}\n", 2, "trigger", "`flush` goes with", ""),
    "duration": ("pipeline: test\n", "pipeline: test\ntrigger: {every: soon}\n", 2, "trigger.every", "expected a duration such as '10 minutes'", ""),
    "watermark column": ("on_rejected: drop}", "on_rejected: drop, watermark: {column: kk, delay: 1 hour}}", 5, "operators.row.watermark.column", "there is no column 'kk'", "Did you mean 'k'?"),
    "watermark type": ("on_rejected: drop}", "on_rejected: drop, watermark: {column: k, delay: 1 hour}}", 5, "operators.row.watermark.column", "is no TIMESTAMP", ""),
    "nothing to select": ("use: decode, from: lines, with: {format: json, schema: \"k STRING, v INT\"}, on_rejected: drop", "use: select, from: lines", 5, "operators.row", "expected `columns`, `where` or both", ""),
    "gate": ("console, from: row", "console, from: row, require: exactly-once", 7, "sinks.out.require", "is at-least-once, not exactly-once: out: a batch that is retried", ""),
    "self alias": ("path: in", "path: &a [*a]", 3, "sources.lines.with.path.0", "an alias of something that contains it", ""),
    "infinite": ("format: message", "format: message, max_files: .inf", 3, "sources.lines.with.max_files", "must be finite", ""),
    "endless": ("format: message", f"format: message, max_files: 0x{'f' * 5000}", 3, "sources.lines.with.max_files", "may have 1024 bits", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_shown_with_its_line_key_and_nearest_word(tmp_path, case, monkeypatch):
    """Pass: a problem at that line and key, in those words, with that hint."""
    monkeypatch.setitem(os.environb, b"MAINSTEM_BYTES", b"in\xff")
    old, new, line, key, words, hint = CASES[case]
    assert old in RIGHT
    found = problems(tmp_path, RIGHT.replace(old, new, 1))
    assert any(
        p.line == line and p.key == key and words in p.message and hint in p.hint for p in found
    ), [vars(p) for p in found]


def test_characters_are_whole_that_json_escapes_by_halves():
    """Pass: a document that is JSON has the same text as its own."""
    document = {"a \N{WATER WAVE}": ["\N{WATER WAVE}\N{MATHEMATICAL BOLD CAPITAL A}"]}
    assert read_text(json.dumps(document)).values == document


def test_all_mistakes_come_at_once_in_the_order_of_their_lines(tmp_path):
    """Pass: six mistakes of different kinds in one document are six problems."""
    found = problems(
        tmp_path,
        """\
        pipeline: Test
        trigger: {every: never}
        sources:
          lines: {use: files, with: {path: in, format: message, max_files: x}}
          other: {use: nosuchword}
        operators:
          row: {use: decode, from: lines, with: {format: json, schemas: "k STRING"}}
        sinks:
          out: {use: console, form: row}
        """,
    )
    assert [problem.line for problem in found] == sorted(problem.line for problem in found)
    assert {1, 2, 4, 5, 7, 9} == {problem.line for problem in found}


def test_all_mistakes_of_the_graph_come_at_once(tmp_path):
    """Pass: unknown inputs, a cycle and a refused option of a right-looking document, together."""
    found = problems(
        tmp_path,
        """\
        pipeline: test
        sources:
          lines: {use: files, with: {path: in, format: csv}}
        operators:
          a: {use: union, from: b}
          b: {use: union, from: a}
        sinks:
          out: {use: console, from: nowhere}
          bad: {use: console, from: a.rejected}
        """,
    )
    text = "\n".join(map(str, found))
    assert "'nowhere' is no node" in text
    assert "a cycle: " in text
    assert "needs a `schema`" in text


def test_streams_of_different_shapes_cannot_be_one_input(tmp_path):
    """Pass: the difference is named."""
    text = RIGHT.replace("from: row}", "from: [row, lines]}")
    (found,) = problems(tmp_path, text)
    assert found.message.startswith("lines and row are not of one shape: only one has ")


def test_changelogs_of_different_tables_cannot_be_one_input(tmp_path):
    """Pass: the difference is named."""
    made = "{use: changelog, from: row, with: {key: [%s], sequence: v}, on_rejected: drop}"
    text = RIGHT.replace("sinks:", f"  a: {made % 'k'}\n  b: {made % 'v'}\nsinks:")
    (found,) = problems(tmp_path, text.replace("from: row}", "from: [a, b]}"))
    assert found.message == "b and a are not of one shape: the key of one is k, of the other v"


def test_a_variable_that_is_set_and_empty_is_told_as_that(tmp_path, monkeypatch):
    """Pass: nobody looks for a variable that is there; a default takes its place."""
    monkeypatch.setenv("MAINSTEM_EMPTY", "")
    found = problems(tmp_path, RIGHT.replace("path: in", "path: '${env:MAINSTEM_EMPTY}'"))
    assert found[0].message == "environment variable MAINSTEM_EMPTY is empty"
    make_plan(RIGHT.replace("path: in", "path: '${env:MAINSTEM_EMPTY:-in}'"))


@pytest.mark.parametrize(
    ("relay", "told"),
    [
        ("{keep: 0 seconds}", {"keep: expected more than 0 seconds, not '0 seconds'"}),
        ("{}", {"keep: key 'keep' is missing"}),
        ("{kep: 1 day}", {"keep: key 'keep' is missing", "kep: unknown key 'kep'"}),
        ("often", {"expected a boolean, not 'often'; or expected a map, not 'often'"}),
    ],
)
def test_where_one_of_several_kinds_fits_the_others_are_not_told(relay, told):
    """Pass: what is wrong inside a map, and not that it is no boolean."""
    text = (
        "pipeline: p\n"
        f"sources: {{rows: {{use: rate, relay: {relay}}}}}\n"
        "sinks: {out: {use: console, from: rows}}\n"
    )
    with pytest.raises(DocumentError) as caught:
        make_plan(text)
    found = {(problem.key, problem.message) for problem in caught.value.problems}
    keyed = {
        f"{key.rpartition('.')[2]}: {message}" if key != "sources.rows.relay" else message
        for key, message in found
    }
    assert keyed == told


def test_a_duration_that_is_too_long_is_a_problem_beside_others(tmp_path):
    """Pass: its line is told, and so is that of the other mistake."""
    text = RIGHT.replace("pipeline: test", "pipeline: test\ntrigger: {every: 9999999999 weeks}")
    found = problems(tmp_path, text.replace("use: console", "use: consol"))
    assert [problem.key for problem in found] == ["trigger.every", "sinks.out.use"]
    assert "too long" in found[0].message


def test_a_shape_that_a_port_does_not_take_is_refused(tmp_path):
    """Pass: decode wants messages and says what there is instead."""
    text = RIGHT.replace(
        "sinks:",
        "  again: {use: decode, from: row, with: {format: json}, on_rejected: drop}\nsinks:",
    )
    found = problems(tmp_path, text)
    assert "needs a column `value` binary; there are: k, v" in found[0].message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: [1", "not YAML"),
        (b"a: 1\n--- \nb: 2\n", "found 2 documents"),
        (b"- 1\n", "expected one mapping"),
        (b"", "expected one mapping"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"a: *b\n", "not YAML"),
        (b"a: " + b"[" * 5000 + b"]" * 5000, "nested more than 100 deep"),
        (b"[" * 40_000, "nested more than 100 deep"),
        (b"a: [1" + b",1" * 500_000 + b"]", "more than 20,000 values"),
        (b"a: [1" + b",1" * 5_000_000 + b"]", "more than 1,048,576 bytes"),
        (b"? [1, 2]\n: 3\n", "a key must be plain text"),
    ],
)
def test_what_is_no_document_is_refused_in_words(tmp_path, content, words):
    """Pass: a document error, never a stack trace or a hang."""
    file = tmp_path / "pipeline.yaml"
    file.write_bytes(content)
    with pytest.raises(DocumentError, match=words):
        make_plan(file)


def test_a_file_that_is_not_there_is_a_document_error(tmp_path):
    """Pass: the path is named."""
    with pytest.raises(DocumentError, match=r"nowhere\.yaml: there is no such file"):
        make_plan(tmp_path / "nowhere.yaml")


def test_a_file_that_a_document_names_is_a_regular_and_small_one(tmp_path):
    """Pass: a device that never ends, and a large file, are a problem of the document, at its line."""
    (tmp_path / "large").write_bytes(b"x" * (2**20 + 1))
    (tmp_path / "fits").write_bytes(b"x" * 2**20)
    file = tmp_path / "p.yaml"
    file.write_text(
        "pipeline: a\nsources:\n  s: {use: rate, with: {a: '${file:/dev/zero}', b: '${file:large}', c: '${file:fits}'}}\n"
    )
    with pytest.raises(DocumentError) as refusal:
        make_plan(file)
    told = str(refusal.value)
    assert "p.yaml:3:" in told
    assert "can't read /dev/zero: it is no regular file" in told
    assert "large: it has more than 1,048,576 bytes" in told
    assert "fits: " not in told
    with pytest.raises(DocumentError, match="it is no regular file"):
        make_plan(Path("/dev/zero"))


def test_aliases_that_explode_are_refused(tmp_path):
    """Pass: nine lines that stand for a billion values end in an error at once."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (found,) = problems(tmp_path, "\n".join(lines) + "\n")
    assert "aliases are expanded" in found.message


def test_aliases_and_merges_that_are_meant_work(tmp_path):
    """Pass: an anchor used twice and a merge give a plan; a written key wins over a merged one."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        textwrap.dedent("""\
        pipeline: test
        sources:
          one: {use: rate, with: &slow {rows_per_second: 3}}
          two: {use: rate, with: *slow}
          three: {use: rate, with: {<<: *slow, rows_per_second: 5}}
        sinks:
          out: {use: console, from: [one, two, three]}
        """)
    )
    nodes = make_plan(file).nodes
    rates = [nodes[name].component.options.rows_per_second for name in ("one", "two", "three")]
    assert rates == [3, 3, 5]


def test_an_anchor_that_is_set_anew_shows_nothing_of_the_document(tmp_path):
    """Pass: the latest counts, as YAML says; no warning, which would quote the lines, secrets too."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        textwrap.dedent("""\
        pipeline: test
        sources:
          one: {use: rate, with: {rows_per_second: &a 3}}
          two: {use: rate, with: {rows_per_second: &a 4}}
          three: {use: rate, with: {rows_per_second: *a}}
        sinks:
          out: {use: console, from: [one, two, three]}
        """)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_plan(file).nodes["three"].component.options.rows_per_second == 4


def test_references_are_read_as_what_an_option_needs(tmp_path, monkeypatch):
    """Pass: numbers come from text, defaults count, $$ is a dollar, files are read."""
    monkeypatch.setenv("MAINSTEM_TEST_FILES", "7")
    (tmp_path / "name.txt").write_text("folder\n")
    text = RIGHT.replace(
        "path: in, format: message",
        "path: 'a$$b/${file:name.txt}', format: '${env:MAINSTEM_TEST_NONE:-message}', "
        "max_files: '${env:MAINSTEM_TEST_FILES}'",
    )
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    options = make_plan(file).nodes["lines"].component.options
    assert options.max_files == 7
    assert options.path == tmp_path / "a$b" / "folder"
    assert options.format == "message"


def test_a_default_of_a_reference_is_not_shown(tmp_path):
    """Pass: it is a secret like what the variable would hold; its name is shown in its place."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(RIGHT.replace("path: in", "path: '${env:MAINSTEM_TEST_NONE:-hunter2pass}'"))
    told = make_plan(file).scrubber.clean("login failed for hunter2pass")
    assert told == "login failed for ${env:MAINSTEM_TEST_NONE}"


def test_a_document_can_be_plain_values():
    """Pass: the same checks without a file, with keys in place of lines."""
    with pytest.raises(DocumentError, match=r"sources: expected|key 'sinks' is missing"):
        make_plan({"pipeline": "test", "sources": {}})


def test_a_misspelt_change_by_the_environment_is_told(tmp_path, monkeypatch):
    """Pass: with what was meant; variables for anything else are nobody's business."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(RIGHT)
    monkeypatch.setenv("MAINSTEM_DB__PASSWORD", "x")
    monkeypatch.setenv("MAINSTEM_SOURCE__FOLDER", "in")
    file.write_text(RIGHT.replace("path: in", "path: '${env:MAINSTEM_SOURCE__FOLDER}'"))
    make_plan(file)
    monkeypatch.setenv("MAINSTEM_SINK__OUT__USE", "console")
    with pytest.raises(DocumentError, match="a document has no key 'sink'\n.*Did you mean 'sinks'"):
        make_plan(file)


def test_what_is_empty_is_told_where_its_key_stands(tmp_path):
    """Pass: the line of the key, whatever stands below it, and that there is nothing."""
    text = RIGHT.replace("from: row}", "from: }").replace(
        "use: decode, from: lines,", "use: decode, from: ,"
    )
    found = {problem.key: problem for problem in problems(tmp_path, text)}
    assert (found["sinks.out.from"].line, found["operators.row.from"].line) == (7, 5)
    found = {p.key: p for p in problems(tmp_path, "pipeline:\nsources:\n  a: {}\nsinks: {}\n")}
    assert (found["pipeline"].line, found["pipeline"].hint) == (1, "Nothing stands there.")


def test_a_file_that_is_not_utf_8_is_told_with_its_line(tmp_path):
    """Pass: of Latin-1 where the first such letter is, of UTF-16 the first."""
    file = tmp_path / "pipeline.yaml"
    for data, line in ((b"pipeline: a\n# caf\xe9\n", 2), ("pipeline: a\n".encode("utf-16"), 1)):
        file.write_bytes(data)
        with pytest.raises(DocumentError) as caught:
            make_plan(file)
        (problem,) = caught.value.problems
        assert (problem.line, problem.message, problem.hint) == (
            line,
            "it is not UTF-8",
            "Save it as UTF-8.",
        )


def test_what_a_value_is_not_is_told_once_and_where_something_is_expected(tmp_path):
    """Pass: no list of columns is shown behind the complaint about one of them."""
    text = RIGHT.replace("k STRING, v INT", "k STRING, k INT")
    assert not any(", not '" in problem.message for problem in problems(tmp_path, text))
