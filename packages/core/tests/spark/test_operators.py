"""`select`, `union`, `changelog` and `encode`, and the identity of rows through them."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from mainstem import Events, Inputs, OptionError
from mainstem.builtin.encode import Encode
from mainstem.columns import check_order
from mainstem.plan.build import make_plan
from mainstem.registry import Registry
from mainstem.run.runner import run

DECODE = {"use": "decode", "from": "lines", "with": {"format": "json", "schema": "k STRING, v INT"}}


@pytest.mark.in_turn
def test_select_computes_and_filters(pipeline):
    """Pass: only rows that meet the condition come out, with the computed columns."""
    pipeline.document(
        operators={
            "row": {**DECODE, "on_rejected": "drop"},
            "big": {
                "use": "select",
                "from": "row",
                "with": {"columns": {"name": "upper(k)", "twice": "v * 2"}, "where": "v > 1"},
            },
        },
        sinks={"out": pipeline.sink("out", "big")},
    )
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "c", "v": 3}])
    pipeline.run()
    assert sorted(pipeline.rows("out"), key=lambda r: r["name"]) == [
        {"name": "B", "twice": 4}, {"name": "C", "twice": 6},
    ]  # fmt: skip


@pytest.mark.in_turn
def test_changelog_marks_deletes_and_refuses_rows_without_key_or_sequence(pipeline):
    """Pass: change columns are right, key and sequence are there, the rest is rejected; names in any case."""
    pipeline.document(
        operators={
            "row": {**DECODE, "on_rejected": "drop"},
            "table": {
                "use": "changelog",
                "from": "row",
                "with": {"key": ["k"], "sequence": "V", "delete": "v = 9"},
            },
        },
        sinks={"out": pipeline.sink("out", "table"), "bad": pipeline.sink("bad", "table.rejected")},
    )
    rows = [{"k": "a", "v": 1}, {"k": "a", "v": 9}, {"v": 2}, {"k": "b"}]
    pipeline.feed("1.jsonl", rows)
    pipeline.run()
    found = {(r["k"], r["_commit_version"]): r["_change_type"] for r in pipeline.rows("out")}
    assert found == {("a", 1): "update_postimage", ("a", 9): "delete"}
    assert sorted(r["reason"] for r in pipeline.rows("bad")) == ["V is null", "k is null"]
    payloads = {base64.b64decode(r["payload"]).decode() for r in pipeline.rows("bad")}
    assert {json.loads(p).get("v") for p in payloads} == {2, None}


@pytest.mark.in_turn
def test_encode_makes_messages_and_tombstones(pipeline):
    """Pass: key, value, headers and origin are as asked; a delete has no value."""
    pipeline.document(
        operators={
            "row": {**DECODE, "on_rejected": "drop"},
            "table": {
                "use": "changelog",
                "from": "row",
                "with": {"key": ["k"], "sequence": "v", "delete": "v = 9"},
                "on_rejected": "drop",
            },
            "message": {
                "use": "encode",
                "from": "table",
                "with": {
                    "format": "json",
                    "columns": ["v"],
                    "key": "k",
                    "headers": {"kind": "'row'", "none": "CAST(NULL AS STRING)"},
                    "origin": "concat('topic-', k)",
                },
            },
        },
        sinks={
            "out": {
                "use": "files",
                "from": "message",
                "with": {"path": "./out", "format": "parquet"},
            }
        },
    )
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, {"k": "b", "v": 9}])
    pipeline.run()
    found = {row["key"]: row for row in pipeline.rows("out")}
    assert found[b"a"]["value"] == b'{"v":1}'
    assert found[b"b"]["value"] is None
    assert dict(found[b"a"]["headers"]) == {"kind": b"row"}
    assert found[b"a"]["origin"] == "topic-a"


@pytest.mark.in_turn
def test_encode_keeps_the_place_in_the_log_for_sinks_that_go_by_it(pipeline):
    """Pass: kept columns come beside the message's, with the types that are known of their source."""
    places = {name: name for name in ("origin", "partition", "position")}
    pipeline.document(
        operators={
            "row": {**DECODE, "with": {**DECODE["with"], "keep": places}, "on_rejected": "drop"},
            "message": {
                "use": "encode",
                "from": "row",
                "with": {"format": "json", "columns": ["v"], "key": "k", "keep": places},
            },
        },
        sinks={
            "out": {
                "use": "files",
                "from": "message",
                "with": {"path": "./out", "format": "parquet"},
            }
        },
    )
    shape = make_plan(pipeline.file).nodes["message"].shape
    assert shape is not None
    check_order(shape.columns, "order", "")
    assert [c.type for c in shape.columns[-3:]] == ["string"] * 3
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, {"k": "a", "v": 2}])
    pipeline.run()
    rows = sorted(pipeline.rows("out"), key=lambda row: row["position"])
    assert [row["value"] for row in rows] == [b'{"v":1}', b'{"v":2}']
    assert ["1.jsonl" in row["origin"] for row in rows] == [True, True]


@pytest.mark.parametrize("name", ["value", "Key", "origin"])
def test_encode_keeps_no_column_under_a_name_of_the_messages(name):
    """Pass: such a name is a problem of the document."""
    own = {"format": "json", "origin": "'x'", "keep": {name: "k"}}
    model = Encode.options_for(own, Registry().component)
    operator = Encode(model.model_validate(own))
    with pytest.raises(OptionError, match="message's own"):
        operator.shape(Inputs({"input": Events("k STRING")}))


@pytest.mark.in_turn
def test_ids_are_the_same_after_a_replay_in_other_batches(pipeline):
    """Pass: a fresh run over the same files, cut into other batches, gives the same ids."""

    def ids(checkpoint: str, out: str, max_files: int) -> dict[bytes, str]:
        source = {"path": "./in", "format": "message", "max_files": max_files}
        pipeline.document(
            checkpoint=f"./{checkpoint}",
            sources={"lines": {"use": "files", "with": source}},
            operators={"row": DECODE},
            sinks={
                "good": pipeline.sink(f"{out}_good", "row"),
                "bad": pipeline.sink(out, "row.rejected"),
            },
        )
        pipeline.run()
        return {base64.b64decode(r["payload"]): r["_id"] for r in pipeline.rows(out)}

    for number in range(6):
        pipeline.feed(f"{number}.jsonl", [f"bad {number} {line}" for line in range(50)])
    one, many = ids("a", "one", 1), ids("b", "many", 1000)
    assert len(one) == 300
    assert len(set(one.values())) == 300
    assert one == many


@pytest.mark.in_turn
def test_a_union_of_two_sources_is_one_stream(pipeline):
    """Pass: rows of both sources come out of the named union, in one query."""
    (pipeline.folder / "in2").mkdir()
    (pipeline.folder / "in2" / "1.jsonl").write_text('{"k":"z","v":26}\n')
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    source = {"format": "jsonlines", "schema": "k STRING, v INT"}
    pipeline.document(
        sources={
            "one": {"use": "files", "with": {"path": "./in", **source}},
            "two": {"use": "files", "with": {"path": "./in2", **source}},
        },
        operators={"both": {"use": "union", "from": ["one", "two"]}},
        sinks={"out": pipeline.sink("out", "both")},
    )
    summary = pipeline.run()
    assert sorted(row["k"] for row in pipeline.rows("out")) == ["a", "z"]
    assert list(summary["queries"]) == ["both"]


@pytest.mark.in_turn
def test_a_changelogs_sequence_reaches_a_sink_that_uses_it_behind_encode(pipeline):
    """Pass: the sink that names `_commit_version` gets it beside the message, another one does not."""
    pipeline.document(
        operators={
            "row": {
                "use": "decode",
                "from": "lines",
                "with": {"format": "json", "schema": "k STRING, n BIGINT"},
                "on_rejected": "drop",
            },
            "changes": {"use": "changelog", "from": "row", "with": {"key": ["k"], "sequence": "n"}},
            "message": {"use": "encode", "from": "changes", "with": {"format": "json", "key": "k"}},
        },
        sinks={n: pipeline.sink(n, "message", query="own") for n in ("used", "plain")},
    )
    pipeline.feed("1.jsonl", [{"k": "a", "n": 1}, {"k": "a", "n": 7}])
    plan = replace(make_plan(pipeline.file), remade=None)  # it is not the document's any more
    sink = plan.nodes["used"].component
    facts = {"capabilities": replace(sink.capabilities, uses=("_commit_version", "_no_such"))}
    sink.__class__ = type("Uses", (type(sink),), facts)
    run(plan)
    assert sorted(row["_commit_version"] for row in pipeline.rows("used")) == [1, 7]
    assert len(pipeline.rows("plain")) == 2
    assert all("_commit_version" not in row for row in pipeline.rows("plain"))
