"""Documents with `decide` and `evolve`, run in Spark."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest
from carts import command
from mainstem import DocumentError, OptionError
from ruamel.yaml import YAML

SCHEMA = "cart STRING, id STRING, at TIMESTAMP, n BIGINT, kind STRING, item STRING, count BIGINT, known BIGINT"
FOLDER = str(Path(__file__).parent)
DECIDE = {
    "call": "shop:Cart",
    "folder": FOLDER,
    "by": ["cart"],
    "state": "items MAP<STRING, BIGINT>, paid BIGINT",
    "events": "kind STRING, item STRING, count BIGINT",
    "order": ["n"],
    "expected": "known",
    "command": "id",
    "remember": "1 hour",
}


def document(pipeline, schema=SCHEMA, watermark=True, select=None, **more):
    source = {"path": "./in", "format": "jsonlines", "schema": schema, "max_files": 1}
    rows = {"use": "files", "with": source}
    if watermark:
        rows["watermark"] = {"column": "at", "delay": "1 minute"}
    given = {name: value for name, value in {**DECIDE, **more}.items() if value is not None}
    evolve = {n: given[n] for n in ("call", "folder", "by", "state")} | {"version": "version"}
    made = {"use": "select", "from": "rows", "with": {"columns": select or {"cart": "cart"}}}
    return pipeline.document(
        sources={"rows": rows},
        operators={
            **({"made": made} if select else {}),
            "cart": {"use": "decide", "from": "made" if select else "rows", "with": given},
            "again": {"use": "evolve", "from": "cart", "with": evolve},
        },
        sinks={
            "events": pipeline.sink("events", "cart"),
            "states": pipeline.sink("states", "cart.state"),
            "answers": pipeline.sink("answers", "cart.answers"),
            "refused": pipeline.sink("refused", "cart.rejected"),
            "copies": pipeline.sink("copies", "again"),
        },
    )


def lines(*commands):
    return [{**each, "at": each["at"].isoformat()} for each in commands]


@pytest.mark.in_turn
def test_a_document_of_commands(pipeline):
    """Pass: events, states, answers, refusals over several batches and runs; `evolve` makes the same table."""
    pipeline.feed(
        "0.jsonl",
        lines(command(1, "x", "add"), command(2, "x", "take", "b"), command(3, "y", "pay")),
    )
    document(pipeline).run()
    pipeline.feed("1.jsonl", lines(command(4, "x", "pay", known=1), command(1, "x", "add")))
    document(pipeline).run()
    events = sorted((e["cart"], e["version"], e["kind"], e["id"]) for e in pipeline.rows("events"))
    assert events == [("x", 1, "added", "c1"), ("x", 2, "paid", "c4"), ("x", 3, "closed", "c4")]
    reasons = sorted(row["reason"] for row in pipeline.rows("refused"))
    assert reasons == ["the cart is empty", "there are 0 of b"]
    answers = sorted((a["id"], a["accepted"], a["repeated"]) for a in pipeline.rows("answers"))
    assert answers == [
        ("c1", True, False),
        ("c1", True, True),
        ("c2", False, False),
        ("c3", False, False),
        ("c4", True, False),
    ]
    names = ("cart", "_commit_version", "_change_type")
    changes = [("x", 1, "insert"), ("x", 3, "delete")]
    assert sorted(tuple(r[n] for n in names) for r in pipeline.rows("states")) == changes
    # It is told after each event, and `decide` after each command.
    copies = sorted(tuple(r[n] for n in names) for r in pipeline.rows("copies"))
    assert copies == [changes[0], ("x", 2, "update_postimage"), changes[1]]
    shown = [json.loads(b64decode(row["payload"])) for row in pipeline.rows("refused")]
    assert sorted(row["cart"] for row in shown) == ["x", "y"]


def test_events_are_announced_as_they_come(pipeline):
    """Pass: key, id and time first, the version, then their own, of which one may be named as an answer's column."""
    events = document(pipeline, events="kind STRING, reason STRING").plan().nodes["cart"].shape
    assert events.names == ("cart", "id", "at", "version", "kind", "reason")


@pytest.mark.in_turn
def test_times_that_python_has_not_are_refused(pipeline):
    """Pass: the run goes on, and says why."""
    columns = {name: name for name in ("cart", "id", "at", "n", "kind", "item", "known")}
    far = {"count": "1", "until": "timestamp_seconds(count)"}
    commands = [command(1, "x", "add", count=10**12), command(2, "x", "add", count=10**9)]
    pipeline.feed("0.jsonl", lines(*commands))
    summary = document(pipeline, select={**columns, **far}).run()
    assert [event["id"] for event in pipeline.rows("events")] == ["c2"]
    (refused,) = pipeline.rows("refused")
    assert refused["reason"] == "until is in a year that Python has not"
    assert summary["queries"]["cart"]["nodes"]["cart"]["state"] == 1


@pytest.mark.in_turn
def test_states_that_nobody_reads_are_not_made(pipeline):
    """Pass: they are counted as none."""
    pipeline.feed("0.jsonl", lines(command(1, "x", "add")))
    document(pipeline)
    made = YAML(typ="safe").load(pipeline.file.read_text())
    made["sinks"] = {"events": made["sinks"]["events"]}
    made["operators"].pop("again")
    pipeline.document(**{name: made[name] for name in ("sources", "operators", "sinks")})
    counts = pipeline.run()["queries"]["cart"]["nodes"]["cart"]
    assert (counts["rows"], counts["state"]) == (1, 0)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"call": "shop:Nothing"}, "has no function 'Nothing'"),
        ({"call": "shop:Rejected"}, "has no function 'decide'"),
    ],
)
def test_a_class_that_can_not_be_called_is_told(pipeline, more, told):
    """Pass: before the first batch."""
    pipeline.feed("0.jsonl", lines(command(1, "x", "add")))
    with pytest.raises((DocumentError, OptionError), match=told):
        document(pipeline, **more).run()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"remember": None}, "with.remember: ids of commands are remembered for some time"),
        ({"command": None}, "with.command: ids of commands are remembered for some time"),
        ({"expected": "kind"}, "kind is STRING, and no whole number"),
        ({"by": ["nothing"]}, "nothing"),
        ({"state": "cart STRING"}, "'cart' is the key's"),
        ({"events": "version BIGINT"}, "the name 'version' is taken"),
        ({"events": "at TIMESTAMP"}, "the name 'at' is taken"),
        ({"version": "reason"}, "the name 'reason' is taken"),
        ({"version": "item"}, "the name 'item' is taken"),
        (
            {"schema": SCHEMA.replace("id STRING", "id ARRAY<STRING>")},
            "id is ARRAY<STRING>, and no id",
        ),
        ({"order": None, "watermark": False, "command": None, "remember": None}, "in which order"),
        ({"watermark": False}, "the input has no event time"),
    ],
)
def test_wrong_documents_are_told(pipeline, options, told):
    """Pass: before anything runs."""
    with pytest.raises(DocumentError, match=told):
        document(pipeline, **options).plan()
