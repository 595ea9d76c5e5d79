"""Running: sinks that share a batch, outputs, failures and their words, stopping, watermarks."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from mainstem import Advising, Changelog, PermanentError, TransientError
from mainstem.builtin.files_sink import FilesSink
from mainstem.builtin.files_source import Files
from mainstem.errors import DocumentError, PipelineError
from mainstem.plan.build import make_plan
from mainstem.run.runner import run
from mainstem.sinks import write_by_tasks
from mainstem_testkit import wait_for

SCHEMA = "k STRING, v INT"


def decode(**more):
    return {"use": "decode", "from": "lines", "with": {"format": "json", "schema": SCHEMA}, **more}


@pytest.mark.in_turn
def test_sinks_of_one_query_share_a_batch_that_is_computed_once(pipeline):
    """Pass: a random number, drawn once a row, is the same in both sinks."""
    pipeline.document(
        operators={
            "row": decode(on_rejected="drop"),
            "drawn": {
                "use": "select",
                "from": "row",
                "with": {"columns": {"k": "k", "r": "CAST(rand() * 1000000000 AS BIGINT)"}},
            },
        },
        sinks={
            "a": pipeline.sink("a", "drawn"),
            "b": pipeline.sink("b", "drawn"),
            "c": pipeline.sink("c", "drawn", query="own"),
        },
    )
    pipeline.feed("1.jsonl", [{"k": str(n), "v": n} for n in range(50)])
    summary = pipeline.run()
    by_key = {name: {r["k"]: r["r"] for r in pipeline.rows(name)} for name in "abc"}
    assert len(by_key["a"]) == 50
    assert by_key["a"] == by_key["b"]
    assert by_key["c"] != by_key["a"]
    assert sorted(summary["queries"]) == ["c", "lines"]


def test_a_sink_that_asks_python_to_end_fails_the_run(pipeline, monkeypatch):
    """Pass: an error that names the sink, where Spark would wait for an answer for ever."""
    monkeypatch.setattr(FilesSink, "write", lambda *_: sys.exit(3))
    pipeline.document(sinks={"out": pipeline.sink("out", "lines")})
    pipeline.feed("1.jsonl", ["a"])
    with pytest.raises(PipelineError, match="out: SystemExit: 3"):
        pipeline.run()


@pytest.mark.in_turn
def test_what_a_sinks_task_raises_ends_the_run_as_what_it_is(pipeline, monkeypatch):
    """Pass: the error's class, also where it is a plugin's subclass, and its whole text, after the sink's
    name; nothing of Spark's, nor of what it came of."""

    class AwayError(PermanentError):
        pass

    def task(batches):
        try:
            raise TransientError("no answer")
        except TransientError as error:
            raise AwayError("nobody\nis at home") from error
        yield from batches

    monkeypatch.setattr(FilesSink, "write", lambda _, frame, __: write_by_tasks(frame, task))
    pipeline.document(sinks={"out": pipeline.sink("out", "lines")})
    pipeline.feed("1.jsonl", ["a"])
    with pytest.raises(PermanentError) as error:
        pipeline.run()
    assert (str(error.value), error.value.node) == ("out: nobody is at home", "out")


@pytest.mark.in_turn
def test_rows_are_counted_by_node_and_a_dropped_refusal_is_counted(pipeline):
    """Pass: the summary tells rows and refusals of each node."""
    pipeline.document(
        operators={"row": decode(on_rejected="drop")}, sinks={"out": pipeline.sink("out", "row")}
    )
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, "bad", {"k": "b", "v": 2}])
    nodes = pipeline.run()["queries"]["lines"]["nodes"]
    assert nodes == {"lines": {"rows": 3}, "row": {"rows": 2, "rejected": 1}, "out": {"rows": 2}}


@pytest.mark.in_turn
def test_a_refused_row_that_nobody_reads_ends_the_run_and_tells_its_id_not_its_content(pipeline):
    """Pass: exit code 1 with node, reason and `_id`; the content shows only when asked for."""
    parts = {
        "operators": {"row": decode()},
        "sinks": {"out": pipeline.sink("out", "row")},
    }
    pipeline.document(**parts)
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, "customer 4711"])
    with pytest.raises(PipelineError, match=r"row: refused a row.*not JSON") as failure:
        pipeline.run()
    assert failure.value.node == "row"
    assert "4711" not in str(failure.value)
    assert "lines" not in str(failure.value).replace("Read", "")
    with pytest.raises(PipelineError, match="customer 4711"):
        pipeline.run(show_rows=True)
    assert pipeline.rows("out") == []


@pytest.mark.in_turn
def test_a_failing_expression_is_traced_to_its_node_without_a_java_stack(pipeline):
    """Pass: node, key and Spark's reason in the message; no stack trace."""
    pipeline.document(
        operators={
            "row": decode(on_rejected="drop"),
            "ratio": {"use": "select", "from": "row", "with": {"columns": {"r": "10 / v"}}},
        },
        sinks={"out": pipeline.sink("out", "ratio")},
    )
    pipeline.feed("1.jsonl", [{"k": "a", "v": 0}])
    result = pipeline.command()
    assert result.returncode == 1, result.stderr
    assert "ratio (operators.ratio.with.columns.r): [DIVIDE_BY_ZERO]" in result.stderr
    assert "\tat " not in result.stderr + result.stdout
    assert len(result.stderr.splitlines()) < 6


@pytest.mark.in_turn
def test_a_failing_expression_above_a_stateless_anchor_is_traced_too(pipeline):
    """Pass: a step of the streaming part is named just so."""
    pipeline.document(
        sources={
            "lines": {"use": "files", "with": {"path": "./in", "format": "message"}},
            "ticks": {"use": "rate", "with": {"rows_per_second": 1}},
        },
        operators={
            "row": decode(on_rejected="drop"),
            "one": {"use": "select", "from": "row", "with": {"columns": {"n": "CAST(10 / v AS BIGINT)"}}},
            "two": {"use": "select", "from": "ticks", "with": {"columns": {"n": "value"}}},
        },
        sinks={"out": pipeline.sink("out", ["one", "two"])},
    )  # fmt: skip
    pipeline.feed("1.jsonl", [{"k": "a", "v": 0}])
    with pytest.raises(
        PipelineError, match=r"one \(operators.one.with.columns.n\): \[DIVIDE_BY_ZERO\]"
    ):
        pipeline.run()


@pytest.mark.parametrize(
    ("columns", "hint"),
    [
        ({"r": "vv + 1"}, "Did you mean 'v'?"),
        ({"r": "v +"}, ""),
        ({"r": "nosuch(v)"}, "Did you mean 'cosh'?"),
    ],
)
def test_wrong_expressions_are_found_before_any_query_starts(pipeline, columns, hint):
    """Pass: a document error that names node and key; nothing was read or written."""
    pipeline.document(
        operators={
            "row": decode(on_rejected="drop"),
            "wrong": {"use": "select", "from": "row", "with": {"columns": columns}},
        },
        sinks={"ok": pipeline.sink("ok", "row"), "out": pipeline.sink("out", "wrong")},
    )
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    with pytest.raises(DocumentError) as failure:
        pipeline.run()
    (problem,) = failure.value.problems
    assert problem.key == "operators.wrong.with.columns.r"
    assert problem.hint == hint
    assert not (pipeline.folder / "ok").exists()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
@pytest.mark.in_turn
def test_a_signal_ends_the_batch_in_hand_and_the_next_run_goes_on(pipeline, number):
    """Pass: exit 0, a summary, and over both runs each row once."""
    source = {"path": "./in", "format": "message", "max_files": 1}
    parts = {
        "sources": {"lines": {"use": "files", "with": source}},
        "operators": {"row": decode(on_rejected="drop")},
        "sinks": {"out": pipeline.sink("out", "row")},
    }
    pipeline.document(**parts, trigger={"every": "100 milliseconds"})
    for file in range(30):
        pipeline.feed(f"{file:02}.jsonl", [{"k": str(file), "v": file}])
    with pipeline.start() as process:
        process.wait_for(lambda: len(pipeline.rows("out")) >= 3)
        process.kill(number)
        ended = process.wait(60)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["event"] == "summary"
    done = len(pipeline.rows("out"))
    assert done < 30
    pipeline.document(**parts)
    pipeline.run()
    assert sorted(row["v"] for row in pipeline.rows("out")) == list(range(30))


@pytest.mark.in_turn
def test_a_stop_from_python_ends_a_run_too(pipeline):
    """Pass: setting the event ends an endless run with its summary."""
    pipeline.document(
        trigger={"every": "100 milliseconds"},
        operators={"row": decode(on_rejected="drop")},
        sinks={"out": pipeline.sink("out", "row")},
    )
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    stop = threading.Event()
    found = {}
    thread = threading.Thread(target=lambda: found.update(run(make_plan(pipeline.file), stop=stop)))
    thread.start()
    wait_for(lambda: pipeline.rows("out"))
    stop.set()
    thread.join(60)
    assert found["queries"]["lines"]["rows_in"] == 1


@pytest.mark.in_turn
def test_a_second_runner_on_one_checkpoint_is_refused_and_a_dead_one_is_not_in_the_way(pipeline):
    """Pass: while one runs the other is refused with its process id; after kill -9 it is not."""
    parts = {
        "operators": {"row": decode(on_rejected="drop")},
        "sinks": {"out": pipeline.sink("out", "row")},
    }
    pipeline.document(**parts, trigger={"every": "1 second"})
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    with pipeline.start() as process:
        process.wait_for(lambda: pipeline.rows("out"))
        with pytest.raises(PipelineError, match=f"already running.*process {process.pid}"):
            pipeline.run()
        process.kill()
    pipeline.document(**parts)
    pipeline.run()
    assert len(pipeline.rows("out")) == 1


@pytest.mark.in_turn
def test_files_that_do_not_fit_a_declared_format_end_the_run(pipeline):
    """Pass: a broken line in typed jsonlines is no silent null; the error says what to do."""
    source = {"path": "./in", "format": "jsonlines", "schema": SCHEMA}
    pipeline.document(
        sources={"lines": {"use": "files", "with": source}},
        sinks={"out": pipeline.sink("out", "lines")},
    )
    pipeline.feed("1.jsonl", ['{"k":"a","v":1}', '{"k":"a","v":"secret"}'])
    with pytest.raises(PipelineError, match="1.jsonl, line 2: v is no INT") as failure:
        pipeline.run()
    assert "secret" not in str(failure.value)
    with pytest.raises(PipelineError, match="secret"):
        pipeline.run(show_rows=True)
    assert pipeline.rows("out") == []


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonlines"])
@pytest.mark.in_turn
def test_what_the_files_sink_writes_the_files_source_reads(pipeline, form):
    """Pass: rows written in each format come back the same through a second pipeline."""
    rows = [{"k": 'x,y"z', "v": 1}, {"k": "ü", "v": None}, {"k": None, "v": 3}]
    pipeline.document(
        operators={"row": decode(on_rejected="drop")},
        sinks={"out": {"use": "files", "from": "row", "with": {"path": "./out", "format": form}}},
    )
    pipeline.feed("1.jsonl", rows)
    pipeline.run()
    pipeline.document(
        pipeline="second",
        sources={
            "back": {"use": "files", "with": {"path": "./out/*", "format": form, "schema": SCHEMA}}
        },
        sinks={"again": pipeline.sink("again", "back")},
    )
    pipeline.run()
    found = sorted(({"k": r.get("k"), "v": r.get("v")} for r in pipeline.rows("again")), key=str)
    assert found == sorted(rows, key=str)


@pytest.mark.in_turn
def test_partitions_merged_files_and_plain_readers(pipeline):
    """Pass: folders by value, one file each, read by pandas and by Spark's glob."""
    import pandas as pd

    out = {"path": "./out", "format": "parquet", "partition_by": ["k"], "files_per_batch": 1}
    pipeline.document(
        operators={"row": decode(on_rejected="drop")},
        sinks={"out": {"use": "files", "from": "row", "with": out}},
    )
    for number in range(4):
        pipeline.feed(f"{number}.jsonl", [{"k": k, "v": number} for k in "ab"])
    pipeline.run()
    assert len(list((pipeline.folder / "out").glob("*/k=a/*.parquet"))) == 1
    frame = pd.read_parquet(pipeline.folder / "out")
    assert sorted(zip(frame["k"], frame["v"], strict=True)) == [
        (k, n) for k in "ab" for n in range(4)
    ]


@pytest.mark.in_turn
def test_the_console_sink_and_the_json_lines_of_a_run(pipeline):
    """Pass: every line on standard output is JSON; rows, batches and summary are all told."""
    pipeline.document(
        operators={"row": decode(on_rejected="drop")},
        sinks={"shown": {"use": "console", "from": "row", "with": {"rows": 2}}},
    )
    pipeline.feed("1.jsonl", [{"k": str(n), "v": n} for n in range(3)])
    result = pipeline.command()
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["row"]["v"] for line in lines if "row" in line] == [0, 1]
    assert any("more" in line for line in lines)
    (batch,) = [line for line in lines if line.get("event") == "batch"]
    assert batch["query"] == "lines"
    assert batch["nodes"]["shown"]["rows"] >= 3
    assert lines[-1]["event"] == "summary"


@pytest.mark.in_turn
def test_on_a_terminal_a_table_shows_queries_and_nodes(pipeline):
    """Pass: under a pseudo terminal the run draws a table with each node, then ends."""
    pipeline.document(
        operators={"row": decode(on_rejected="drop")}, sinks={"out": pipeline.sink("out", "row")}
    )
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, "bad"])
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mainstem", "run", str(pipeline.file)],
        stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "120", "TERM": "xterm"},
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 90)[0]:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        shown += part
    assert process.wait(30) == 0, shown.decode()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    for name in ("lines", "row", "out", "rejected", "lag", "ended after"):
        assert name in text
    assert "watermark" not in text  # nothing to tell, no column


@pytest.mark.parametrize("arguments", [[], pytest.param(["--debug"], marks=pytest.mark.slow)])
@pytest.mark.in_turn
def test_a_run_never_prints_what_a_reference_stands_for(pipeline, arguments):
    """Pass: neither a right run, nor one that fails with the value in Spark's message, shows it."""
    secret = "hunter2-swordfish"
    where = "${env:MAINSTEM_TEST_SECRET}"
    parts = {
        "sources": {"lines": {"use": "files", "with": {"path": f"./{where}", "format": "message"}}},
        "sinks": {"out": pipeline.sink(f"out-{where}", "row")},
    }
    (pipeline.folder / "in").rename(pipeline.folder / secret)
    (pipeline.folder / secret / "1.jsonl").write_text('{"k":"a","v":1}\n')
    pipeline.document(**parts, operators={"row": decode(on_rejected="drop")})
    result = pipeline.command(*arguments, MAINSTEM_TEST_SECRET=secret)
    assert result.returncode == 0, result.stderr
    assert secret not in result.stdout + result.stderr
    assert pipeline.rows(f"out-{secret}") == [{"k": "a", "v": 1}]
    for text, code in [(f"raise_error('{where}')", 1), (f"`{where}` + 1", 2)]:
        operators = {
            "given": decode(on_rejected="drop"),
            "row": {"use": "select", "from": "given", "with": {"columns": {"v": text}}},
        }
        pipeline.document(**parts, operators=operators, pipeline=f"other{code}")
        result = pipeline.command("--show-rows", *arguments, MAINSTEM_TEST_SECRET=secret)
        assert result.returncode == code, result.stderr
        assert secret not in result.stdout + result.stderr


@pytest.mark.in_turn
def test_a_component_tells_what_to_do_about_a_failure_that_it_knows(pipeline):
    """Pass: the failure with the step of the source that knows it; nothing where nobody does."""
    pipeline.document(
        operators={
            "row": decode(on_rejected="drop"),
            "cut": {
                "use": "select",
                "from": "row",
                "with": {"columns": {"k": "CAST(raise_error('tape torn') AS STRING)"}},
            },
        },
        sinks={"out": pipeline.sink("out", "cut")},
    )
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])

    class Advises(Files, Advising):
        def advice(self, failure):
            return "Mend the tape." if self.known in failure else ""

    for known, told in (("tape torn", True), ("paper torn", False)):
        made = replace(make_plan(pipeline.file), remade=None)  # it is not the document's any more
        made.nodes["lines"].component = Advises(made.nodes["lines"].source.options)
        made.nodes["lines"].component.known = known
        with pytest.raises(PipelineError) as failure:
            run(made)
        assert "tape torn" in str(failure.value)
        assert ("\n  Mend the tape." in str(failure.value)) is told


@pytest.mark.in_turn
def test_a_source_can_give_a_changelog(pipeline):
    """Pass: the changes reach the sink with type, sequence and time, identified by key and sequence."""

    class Changes(Files):
        def shape(self):
            return Changelog("k STRING, v BIGINT", key=["k"], sequence="v")

        def load(self, ctx):
            split = "split(CAST(value AS STRING), ' ')"
            return (
                super()
                .load(ctx)
                .selectExpr(
                    f"{split}[1] AS k",
                    f"CAST({split}[2] AS BIGINT) AS v",
                    f"{split}[0] AS _change_type",
                    f"CAST({split}[2] AS BIGINT) AS _commit_version",
                    "timestamp AS _commit_timestamp",
                )
            )

    pipeline.document(sinks={"out": pipeline.sink("out", "lines")})
    pipeline.feed("1.jsonl", ["insert a 1", "delete a 2"])
    made = replace(make_plan(pipeline.file), remade=None)  # it is not the document's any more
    node = made.nodes["lines"]
    node.component = Changes(node.source.options)
    node.shape = node.source.shape()
    node.makes_id = True
    run(made)
    found = sorted((r["_change_type"], r["k"], r["_commit_version"]) for r in pipeline.rows("out"))
    assert found == [("delete", "a", 2), ("insert", "a", 1)]
