"""Sources publish how far finished batches have read them: `AfterBatch`."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace

import pytest
from mainstem import AfterBatch
from mainstem.builtin.files_source import Files
from mainstem.errors import PipelineError, PluginError
from mainstem.history import History
from mainstem.observation.reporter import Silent
from mainstem.plan.build import make_plan
from mainstem.plan.replay import replay_plan
from mainstem.run.runner import run


class Publishes(Files, AfterBatch):
    """Files that publish into a list; with `fails` set, only once so many calls have failed."""

    def __init__(self, options, folder):
        super().__init__(options)
        self.told = []
        self.fails = 0
        self._folder = folder

    def after_batch(self, ends):
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the broker at tcp://user:hunter2@far is away")
        done = [History(query).last() for query in sorted(self._folder.iterdir())]
        self.told.append((ends, done))


class Heard(Silent):
    def __init__(self):
        self.news = []

    def helper(self, facts):
        self.news.append((facts["node"], facts["helper"], facts["state"], facts["why"]))


def row(**more):
    options = {"format": "json", "schema": "k STRING, v INT"}
    return {"use": "decode", "from": "lines", "with": options, "on_rejected": "drop", **more}


def publishing(pipeline, plan=None):
    plan = plan or replace(make_plan(pipeline.file), remade=None)  # not the document's any more
    node = plan.nodes["lines"]
    node.component = Publishes(node.source.options, plan.checkpoint / "queries")
    plan.written["lines"].component = node.component
    return plan, node.component


@pytest.fixture
def twice(pipeline):
    """A pipeline whose only source is read by two queries."""
    return pipeline.document(
        operators={"row": row()},
        sinks={
            "out": pipeline.sink("out", "row"),
            "own": pipeline.sink("own", "row", query="own"),
            "again": pipeline.sink("again", "row", query="replay"),
        },
    )


@pytest.mark.in_turn
def test_the_end_of_each_read_is_published_and_only_of_what_is_committed(twice):
    """Pass: at last both queries' ends, as their checkpoints have them, each after its commit."""
    twice.feed("1.jsonl", [{"k": "a", "v": 1}])
    plan, source = publishing(twice)
    run(plan)
    twice.feed("2.jsonl", [{"k": "b", "v": 2}])
    again, later = publishing(twice)
    run(again)
    (ends, done) = later.told[-1]
    histories = [History(plan.checkpoint / "queries" / query.name) for query in plan.queries]
    assert ends == [h.offsets(h.last()).ends["lines"] for h in histories]
    assert done == [1, 1]
    assert source.told[-1][0] == [{"logOffset": 0}, {"logOffset": 0}]
    for ends, done in source.told + later.told:
        known = [None if end is None else end["logOffset"] for end in ends]
        assert all(k is None or d is not None for k, d in zip(known, done, strict=True))


@pytest.mark.in_turn
def test_what_a_killed_run_could_not_publish_is_published_by_the_next(twice):
    """Pass: a run without new rows tells what the checkpoint has."""
    twice.feed("1.jsonl", [{"k": "a", "v": 1}])
    run(make_plan(twice.file))  # publishes nothing
    plan, source = publishing(twice)
    run(plan)
    assert source.told[0][0] == [{"logOffset": 0}, {"logOffset": 0}]


@pytest.mark.in_turn
def test_a_source_that_can_not_publish_is_told_of_and_tried_again(twice):
    """Pass: failing with its reason and without the password, then running; all rows are written."""
    twice.feed("1.jsonl", [{"k": "a", "v": 1}])
    plan, source = publishing(twice)
    plan.scrubber.hide("hunter2", "${env:PASSWORD}")
    run(plan)
    source.fails, source.told = 1, []
    twice.feed("2.jsonl", [{"k": "b", "v": 2}])
    heard = Heard()
    run(plan, reporter=heard)
    assert source.told[-1][0] == [{"logOffset": 1}, {"logOffset": 1}]
    assert [state for _, _, state, _ in heard.news] == ["failing", "running"]
    node, helper, _, why = heard.news[0]
    assert (node, helper) == ("lines", "lines progress")
    assert "ConnectionError: the broker at" in why
    assert "hunter2" not in why
    assert sorted(r["k"] for r in twice.rows("out")) == ["a", "b"]


@pytest.mark.in_turn
def test_a_source_that_hangs_holds_up_no_batch(twice, monkeypatch):
    """Pass: the run ends, all rows written, while the source still publishes."""
    monkeypatch.setattr("mainstem.run.offset_commit._ENDING", 0.2)
    twice.feed("1.jsonl", [{"k": "a", "v": 1}])
    plan, source = publishing(twice)
    let_go = threading.Event()
    source.after_batch = lambda ends: let_go.wait(60)
    try:
        run(plan)
        assert [r["k"] for r in twice.rows("out")] == ["a"]
        assert not let_go.is_set()
    finally:
        let_go.set()


@pytest.mark.in_turn
def test_a_replay_publishes_nothing(twice):
    """Pass: rows reach the shadow, and the source is not told."""
    twice.feed("1.jsonl", [{"k": "a", "v": 1}])
    run(make_plan(twice.file))
    plan, source = publishing(twice)
    source.starting_at = lambda point: source
    run(replay_plan(plan, "lines", "earliest", {"out": "again"}))
    assert [r["k"] for r in twice.rows("again")] == ["a"]
    assert source.told == []


def test_a_replay_begins_after_offsets(twice):
    """Pass: the source is given its own offset; names that do not fit, and no JSON, are refused."""
    plan, source = publishing(twice)
    points = []
    source.starting_at = lambda point: points.append(point) or source
    into = {"out": "again"}
    replay_plan(plan, "lines", '{"lines": {"logOffset": 3}}', into)
    assert points == [{"logOffset": 3}]
    for wrong, message in (
        ('{"other": {}}', "expected offsets of lines, by name"),
        ('{"lines": ', "expected `earliest`, an ISO 8601 time, or JSON of offsets by source"),
    ):
        with pytest.raises(PipelineError, match=message):
            replay_plan(plan, "lines", wrong, into)
    plan, _ = publishing(twice)
    with pytest.raises(PipelineError, match="files start at `earliest` or at a time"):
        replay_plan(plan, "lines", '{"lines": {"logOffset": 3}}', into)


@pytest.mark.in_turn
def test_a_source_is_told_what_the_checkpoint_has_of_its_read_and_can_read_a_second_stream(twice):
    """Pass: nothing before the first batch, then planned and committed offsets; each name once."""
    seen = []

    class Looks(Files):
        def load(self, ctx):
            seen.append((ctx.progress.planned(), ctx.progress.committed()))
            assert ctx.bounded
            assert pickle.loads(pickle.dumps(ctx.progress)) == ctx.progress
            beside = ctx.reader("beside").format("rate").load().selectExpr("value AS v")
            for word in ("beside", "2"):
                with pytest.raises(PluginError, match="one stream for each load"):
                    ctx.reader(word)
            frame = super().load(ctx)
            with pytest.raises(PluginError, match="one stream for each load"):
                ctx.reader()
            return frame.unionByName(beside.where("false"), allowMissingColumns=True).drop("v")

    twice.feed("1.jsonl", [{"k": "a", "v": 1}])
    for number in (0, 1):
        plan = replace(make_plan(twice.file), remade=None)  # not the document's any more
        plan.nodes["lines"].component = Looks(plan.nodes["lines"].source.options)
        run(plan)
        twice.feed(f"{number + 2}.jsonl", [{"k": "b", "v": 2}])
    assert seen[0] == (None, None)
    assert (0, {"logOffset": 0}) == seen[-1][0] == seen[-1][1]
    queries = plan.checkpoint / "queries"
    assert "lines__beside" in History(queries / "lines").offsets(1).ends
