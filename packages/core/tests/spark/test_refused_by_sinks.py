"""Rows that a sink refused go where they are read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mainstem.builtin.files_sink import FilesSink
from mainstem.plan.model import Stream
from mainstem.run.batch_frames import BatchFrames


@pytest.mark.parametrize("query", [{}, {"query": "own"}], ids=["shared", "own"])
@pytest.mark.in_turn
def test_what_a_sink_refused_comes_with_what_others_refused(pipeline, monkeypatch, query):
    """Pass: the sink's refused rows and those of the step, each once; the other sinks have all their rows."""
    write = FilesSink.write

    def choosy(self, frame, batch):
        if batch.sink != "board":
            return write(self, frame, batch)
        write(self, frame.where("v < 2"), batch)
        return frame.where("v >= 2").selectExpr(
            "'too large' AS reason", "encode(k, 'UTF-8') AS payload"
        )

    monkeypatch.setattr(FilesSink, "write", choosy)
    decode = {"format": "json", "schema": "k STRING, v INT"}
    pipeline.document(
        operators={"row": {"use": "decode", "from": "lines", "with": decode}},
        sinks={
            "board": pipeline.sink("board", "row", **query),
            "all": pipeline.sink("all", "row"),
            "bad": pipeline.sink("bad", ["row.rejected", "board.rejected"]),
        },
    )
    pipeline.feed("1.jsonl", ['{"k": "a", "v": 1}', '{"k": "b", "v": 2}', "?"])
    pipeline.run()
    assert [row["k"] for row in pipeline.rows("board")] == ["a"]
    assert sorted(row["k"] for row in pipeline.rows("all")) == ["a", "b"]
    refused = sorted((row["node"], row["reason"]) for row in pipeline.rows("bad"))
    assert [node for node, _ in refused] == ["board", "row"]
    assert refused[0][1] == "too large"


@pytest.mark.in_turn
def test_refused_rows_keep_their_ids_where_a_step_makes_new_ones(pipeline, monkeypatch):
    """Pass: of a step whose rows are known by their key, those that it refused for want of one differ by `_id`."""
    monkeypatch.setattr(FilesSink, "capabilities", replace(FilesSink.capabilities, needs_id=True))
    decode = {"format": "json", "schema": "k STRING, v INT"}
    key = {"key": ["k"], "sequence": "v"}
    pipeline.document(
        operators={
            "row": {"use": "decode", "from": "lines", "with": decode, "on_rejected": "drop"},
            "change": {"use": "changelog", "from": "row", "with": key},
        },
        sinks={
            "out": pipeline.sink("out", "change"),
            "bad": pipeline.sink("bad", "change.rejected"),
        },
    )
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, {"v": 2}, {"v": 2}, {"k": "b", "v": 4}])
    pipeline.run()
    assert {node.name for node in pipeline.plan().nodes.values() if node.makes_id} == {
        "lines",
        "change",
    }
    for name in ("out", "bad"):
        ids = [row.get("_id") for row in pipeline.rows(name)]
        assert len(ids) == len(set(ids) - {None}) == 2


def test_what_a_sink_refused_takes_the_place_of_nothing():
    """Pass: of a sink that joins queries, what it is given is still there beside what it refused."""

    class Plain:
        def output(self, stream, frame):
            return frame

    made = BatchFrames(Plain(), plan=None, query_nodes=("out",))
    made._made["out"] = given = object()
    made.put("out", refused := object())
    assert made.read(Stream("out")) is given
    assert made.read(Stream("out", "rejected")) is refused
