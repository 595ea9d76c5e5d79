"""Rows that a sink refused go where they are read."""

from __future__ import annotations

import pytest
from mainstem.builtin.files_sink import FilesSink


@pytest.mark.parametrize("query", [{}, {"query": "own"}], ids=["shared", "own"])
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
