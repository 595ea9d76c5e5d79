"""A changed document over an old checkpoint, and the session's settings."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from mainstem.builtin.files_sink import FilesSink
from mainstem.durable import read_whole, write_whole
from mainstem.errors import DocumentError, MainstemError, PipelineError
from mainstem.plan.build import make_plan
from mainstem.run.checkpoint import Checkpoint
from mainstem.run.checkpoints import copy
from mainstem.run.runner import run
from mainstem.run.session import settings
from mainstem.run.syncing import Syncing


def parts(pipeline, **changes):
    return {
        "operators": {
            "row": {
                "use": "decode",
                "from": "lines",
                "with": {"format": "json", "schema": "k STRING, v INT"},
                "on_rejected": "drop",
            }
        },
        "sinks": {"out": pipeline.sink("out", "row")},
        **changes,
    }


@pytest.mark.in_turn
def test_a_sink_can_be_added_and_gets_what_comes_from_then_on(pipeline):
    """Pass: the old sink goes on, the new one has the rows of later batches."""
    pipeline.document(**parts(pipeline))
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    pipeline.run()
    sinks = {"out": pipeline.sink("out", "row"), "more": pipeline.sink("more", "row")}
    pipeline.document(**parts(pipeline, sinks=sinks))
    pipeline.feed("2.jsonl", [{"k": "b", "v": 2}])
    pipeline.run()
    assert sorted(row["k"] for row in pipeline.rows("out")) == ["a", "b"]
    assert [row["k"] for row in pipeline.rows("more")] == ["b"]


@pytest.mark.in_turn
@pytest.mark.usefixtures("sources_by_name")
def test_a_source_and_a_stateless_step_can_be_added(pipeline):
    """Pass: over both runs each row of each source comes out once."""
    source = {"format": "jsonlines", "schema": "k STRING"}
    for name in ("two", "three"):
        (pipeline.folder / name).mkdir()
        (pipeline.folder / name / "1.json").write_text(json.dumps({"k": name}) + "\n")
    sources = {
        n: {"use": "files", "with": {"path": f"./{n}", **source}} for n in ("in", "two", "three")
    }
    pipeline.feed("1.jsonl", [{"k": "in"}])
    both = {name: sources[name] for name in ("in", "two")}
    pipeline.document(sources=both, sinks={"out": pipeline.sink("out", list(both))})
    pipeline.run()
    step = {"plain": {"use": "select", "from": "in", "with": {"columns": {"k": "concat(k, '+')"}}}}
    pipeline.document(
        sources=sources,
        operators=step,
        sinks={"out": pipeline.sink("out", ["plain", "two", "three"])},
    )
    pipeline.feed("2.jsonl", [{"k": "in"}])
    pipeline.run()
    assert sorted(row["k"] for row in pipeline.rows("out")) == ["in", "in+", "three", "two"]


@pytest.mark.in_turn
def test_a_checkpoint_of_a_run_without_a_batch_is_no_hindrance(pipeline):
    """Pass: nothing was there to read; a second run with another source finds and reads its rows."""
    pipeline.document(**parts(pipeline))
    pipeline.run()
    assert not list((pipeline.folder / "checkpoints/test/queries/lines/offsets").glob("[0-9]*"))
    pipeline.run()
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    pipeline.run()
    assert [row["k"] for row in pipeline.rows("out")] == ["a"]


@pytest.mark.in_turn
def test_every_run_of_a_checkpoint_has_a_higher_number(pipeline):
    """Pass: also one without a batch, and after a failure; a number that can't be read ends the run."""
    pipeline.document(**parts(pipeline))
    for number in (1, 2, 3):
        pipeline.run()
        assert read_whole(pipeline.plan().checkpoint / "epoch") == str(number)
    with Checkpoint(pipeline.plan(), checked=False):
        pass
    with Checkpoint(pipeline.plan()) as checkpoint:
        assert checkpoint.epoch == 4
    (pipeline.plan().checkpoint / "epoch").write_text("")
    with pytest.raises(PipelineError, match="epoch can't be read"):
        pipeline.run()


@pytest.mark.parametrize("left", ["offsets/.0.9d3a.tmp", "commits/.0.9d3a.tmp", "state/0/1/.1.tmp"])
@pytest.mark.in_turn
def test_what_a_kill_left_of_a_first_batch_is_no_hindrance(pipeline, left):
    """Pass: Spark, which wants these folders empty before the first batch, gets them so."""
    pipeline.document(**parts(pipeline))
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    file = pipeline.plan().checkpoint / "queries" / "lines" / left
    file.parent.mkdir(parents=True)
    file.write_text("v1")
    pipeline.run()
    assert [row["k"] for row in pipeline.rows("out")] == ["a"]
    assert not file.exists()


@pytest.mark.in_turn
def test_a_source_that_was_added_and_never_read_can_be_taken_out_again(pipeline):
    """Pass: the run that would have read it failed before a batch; without it, the query goes on."""
    pipeline.document(**parts(pipeline))
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    pipeline.run()
    lines = {"use": "files", "with": {"path": "./in", "format": "message"}}
    none = {"use": "files", "with": {"path": "./none", "format": "message"}}
    both = parts(pipeline, sources={"lines": lines, "none": none})
    both["operators"]["row"]["from"] = ["lines", "none"]
    pipeline.document(**both)
    with pytest.raises(MainstemError):
        pipeline.run()
    pipeline.document(**parts(pipeline))
    pipeline.feed("2.jsonl", [{"k": "b", "v": 2}])
    pipeline.run()
    assert sorted(row["k"] for row in pipeline.rows("out")) == ["a", "b"]


def test_a_source_that_a_live_query_lost_is_refused_in_words(pipeline):
    """Pass: the change is named, with the ways on; no query ran."""
    names = ["one", "two", "three"]
    sources = {name: {"use": "rate", "with": {}} for name in names}
    pipeline.document(sources=sources, sinks={"out": pipeline.sink("out", names)})
    pipeline.run()
    pipeline.document(sources=sources, sinks={"out": pipeline.sink("out", names[1:])})
    with pytest.raises(DocumentError, match="source 'one', which is gone"):
        pipeline.run()


@pytest.mark.parametrize("version", [0, 99])
@pytest.mark.in_turn
def test_a_checkpoint_of_another_format_is_refused_in_words(pipeline, version):
    """Pass: the error names both formats, be it older or newer."""
    pipeline.document(**parts(pipeline))
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    pipeline.run()
    file = pipeline.folder / "checkpoints" / "test" / "pipeline.json"
    write_whole(file, json.dumps({**json.loads(read_whole(file)), "format": version}))
    with pytest.raises(PipelineError, match=f"has format {version}, and this version reads 1"):
        pipeline.run()


def test_every_setting_can_be_overridden(pipeline):
    """Pass: the document's own settings win over the core's, the store's and a plugin's."""
    own = {
        "spark.sql.session.timeZone": "Europe/Oslo",
        "spark.sql.files.maxPartitionBytes": 1,
        "spark.sql.streaming.stateStore.providerClass": "mine",
        "spark.sql.shuffle.partitions": 7,
    }
    pipeline.document(**parts(pipeline, spark={"master": "local[3]", "conf": own}))
    found = settings(make_plan(pipeline.file))
    assert {key: found[key] for key in own} == {key: str(value) for key, value in own.items()}
    pipeline.document(**parts(pipeline, spark={"master": "local[3]"}, state={"use": "memory"}))
    found = settings(make_plan(pipeline.file))
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.sql.streaming.stateStore.providerClass"].endswith(
        "HDFSBackedStateStoreProvider"
    )


@pytest.mark.parametrize("case", ["none", "old", "broken"])
@pytest.mark.in_turn
def test_a_machine_without_a_fit_java_is_told_what_to_install(pipeline, case, tmp_path):
    """Pass: exit 4 and the package's name, whether Java is missing, too old or does not start."""
    pipeline.document(**parts(pipeline))
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    if case != "none":
        script = "echo 'openjdk version \"11.0.2\"' >&2" if case == "old" else "exit 1"
        (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
        (home / "bin" / "java").chmod(0o755)
    result = pipeline.command(JAVA_HOME=str(home))
    assert result.returncode == 4
    assert "openjdk-17-jre-headless" in result.stderr


@pytest.mark.in_turn
def test_a_sink_is_told_the_first_batch_that_it_was_given(pipeline, monkeypatch):
    """Pass: 0 for one that was there first, the batch it came with for another; in a copy the copy's."""
    told = []
    write = FilesSink.write
    monkeypatch.setattr(
        FilesSink,
        "write",
        lambda self, frame, batch: (
            told.append((batch.sink, batch.id, batch.begins)) or write(self, frame, batch)
        ),
    )

    def run_with(*names, **more):
        told.clear()
        sinks = {name: pipeline.sink(name, "row") for name in names}
        pipeline.document(**parts(pipeline, sinks=sinks, **more))
        pipeline.feed(
            f"{len(list((pipeline.folder / 'in').iterdir()))}.jsonl", [{"k": "a", "v": 1}]
        )
        pipeline.run()
        return sorted(told)

    assert run_with("out") == [("out", 0, 0)]
    assert run_with("out", "more") == [("more", 1, 1), ("out", 1, 0)]
    assert run_with("out", "more") == [("more", 2, 1), ("out", 2, 0)]
    copy(make_plan(pipeline.file), pipeline.folder / "fork")
    assert run_with("out", "more", checkpoint="./fork") == [("more", 3, 3), ("out", 3, 3)]
    fresh = make_plan(pipeline.file, changes=["checkpoint=./checkpoints"])
    told.clear()
    run(fresh, fresh=["lines"])
    assert sorted(told) == [("more", 0, 0), ("out", 0, 0)]


@pytest.mark.in_turn
def test_a_query_that_was_to_begin_anew_does_after_a_kill_on_the_way(pipeline):
    """Pass: killed when a node's state was moved and the query was not, the next run, told nothing, moves it too and
    reads all from the start."""
    pipeline.document(**parts(pipeline))
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    pipeline.run()
    checkpoint = pipeline.plan().checkpoint
    (checkpoint / "nodes/row/state/lines").mkdir(parents=True)
    point = "fresh.set-aside:1:kill"
    assert pipeline.command("--fresh", "lines", MAINSTEM_FAILPOINT=point).returncode == -9
    assert (checkpoint / "queries/lines/commits/0").exists()
    pipeline.run()
    (aside,) = (checkpoint / "set-aside").glob("lines-*")
    assert (aside / "queries/lines/commits/0").exists()
    assert (aside / "nodes/row/state/lines").exists()
    assert [row["k"] for row in pipeline.rows("out")] == ["a", "a"]
    pipeline.run()
    assert list((checkpoint / "set-aside").iterdir()) == [aside]


@pytest.mark.in_turn
def test_a_sink_is_told_whether_an_earlier_run_had_planned_the_batch(pipeline, monkeypatch):
    """Pass: only of the batch that failed, in the run after that; each run has a name of its own."""
    told = []
    write = FilesSink.write

    def told_or_broken(self, frame, batch):
        told.append((batch.id, batch.retried, batch.run))
        if len(told) == 2:
            raise ConnectionError("cut")
        return write(self, frame, batch)

    monkeypatch.setattr(FilesSink, "write", told_or_broken)
    pipeline.document(**parts(pipeline))
    for number in range(3):
        pipeline.feed(f"{number}.jsonl", [{"k": "a", "v": number}])
        if number == 1:
            with pytest.raises(PipelineError, match="cut"):
                pipeline.run()
        else:
            pipeline.run()
    assert [batch for batch, *_ in told] == [0, 1, 1, 2]
    assert [retried for _, retried, _ in told] == [False, False, True, False]
    runs = [run for *_, run in told]
    assert len(set(runs)) == 3
    assert runs[2] == runs[3]


@pytest.mark.in_turn
def test_what_was_planned_is_on_disk_before_the_sink_and_that_before_the_next_batch(
    pipeline, monkeypatch
):
    """Pass: offsets, then the rows, then their place in the sink; then, before the next rows, that it is
    done. What a batch leaves of state is safe before Spark calls the batch done."""
    done, early = [], []
    fsync = os.fsync

    def noted(file):
        path = str(Path(f"/proc/self/fd/{file}").readlink())
        if "/offsets/" in path or "/commits/" in path:
            time.sleep(0.2)
        fsync(file)
        done.append(path)

    def written(self):
        self._waits.append(lambda: early.append(not (self._folder / "commits" / "0").exists()))

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Syncing, "written", written)
    lines = {"path": "./in", "format": "message", "max_files": 1}
    pipeline.document(
        sources={"lines": {"use": "files", "with": lines}},
        sinks={"out": pipeline.sink("out", "lines")},
    )
    pipeline.feed("1.jsonl", ["a"])
    pipeline.feed("2.jsonl", ["b"])
    pipeline.run()

    def at(part, since=0):
        return next(n for n, path in enumerate(done) if n >= since and part in path)

    first = at("lines/offsets/0")
    rows = at(".out.staging/", first)
    place = next(n for n, path in enumerate(done) if n > rows and path.endswith("/out"))
    more = at(".out.staging/", place)
    assert place < at("lines/commits/0") < more
    assert place < at("lines/offsets/1") < more
    assert at("sources/") < rows
    assert early == [True, False]
