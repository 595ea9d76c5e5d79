"""`stream_stream_join` with `late: true`: what is behind the watermark comes out, and joins nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from mainstem import DocumentError
from mainstem.plan.build import make_plan
from mainstem_testkit.pipelines import PipelineFolder
from stream_stream_world import feed

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
JOINS = ("inner", "left", "right", "full")
SCHEMA = "k STRING, n BIGINT, at TIMESTAMP"


def row(n, minute, k="a"):
    return {"k": k, "n": n, "at": START + timedelta(minutes=minute)}


#: By side the rows of each batch. After the first the watermark is at minute 60, and stays there for the
#: third: Spark drops what has that very time then.
BATCHES = [
    {"left": [row(1, 60), row(2, 61, "b")], "right": [row(10, 60), row(11, 61, "c")]},
    {
        "left": [row(3, 30), row(4, 61), row(5, 60), {"k": "a", "n": 6, "at": None}],
        "right": [row(12, 31), row(13, 61), row(14, 31, "z")],
    },
    {"left": [row(7, 60)], "right": [row(15, 61)]},
]
LATE = {"late": [3, 7], "late_right": [12, 14]}
PAIRS = {(1, 10), (1, 13), (4, 10), (4, 13), (5, 10), (5, 13), (1, 15), (4, 15), (5, 15)}


def source(name):
    given = {"path": f"./{name}", "format": "jsonlines", "schema": SCHEMA, "max_files": 1}
    time = {"column": "at", "delay": "1 minute"}
    return {"use": "files", "with": given, "watermark": time}


def join(kind, **more):
    options = {"on": ["k"], "within": {"before": "9 minutes", "after": "9 minutes"}, "join": kind}
    options |= {"take": {"m": "n"}, "late": True, **more}
    return {
        "use": "stream_stream_join",
        "from": {"left": "left", "right": "right"},
        "with": options,
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory, spark):
    """All kinds of join with late rows, and the counts that Spark has of dropped ones."""
    pipeline = PipelineFolder(tmp_path_factory.mktemp("late"))
    joins = {f"join_{kind}": join(kind, unmatched=kind == "inner") for kind in JOINS}
    joins["join_plain"] = join("inner")
    sinks = {f"out_{name}": pipeline.sink(f"out_{name}", name) for name in joins}
    for name in joins:
        sinks |= {f"{of}_{name}": pipeline.sink(f"{of}_{name}", f"{name}.{of}") for of in LATE}
    lost = ["join_inner.unmatched", "join_inner.unmatched_right"]
    sinks["lost"] = pipeline.sink("lost", lost)
    pipeline.document(
        trigger={"available_now": True, "flush": True},
        sources={side: source(side) for side in ("left", "right")},
        operators=joins,
        sinks=sinks,
    )
    for number, sides in enumerate(BATCHES):
        for side, rows in sides.items():
            feed(pipeline.folder / side, f"{number}.json", rows, number)
    summary = pipeline.run()
    assert not any(query["late_rows"] for query in summary["queries"].values())
    return pipeline


@pytest.mark.in_turn(together=True)
@pytest.mark.parametrize("name", [*JOINS, "plain"])
def test_late_rows_come_out_as_they_came_and_join_nothing(world, name):
    """Pass: each late row is in its side's output, whole; the pairs are those of the other rows."""
    for of, numbers in LATE.items():
        side = "left" if of == "late" else "right"
        expected = [r for batch in BATCHES for r in batch[side] if r["n"] in numbers]
        found = [
            {**r, "at": datetime.fromisoformat(r["at"])} for r in world.rows(f"{of}_join_{name}")
        ]
        assert sorted(found, key=str) == sorted(expected, key=str)
    rows = world.rows(f"out_join_{name}")
    assert {(r["n"], r["m"]) for r in rows if "n" in r and "m" in r} == PAIRS
    alone = {("n", r["n"]) for r in rows if "m" not in r} | {
        ("m", r["m"]) for r in rows if "n" not in r
    }
    left, right = {("n", 2), ("n", 6)}, {("m", 11)}
    kept = {"left": left, "right": right, "full": left | right}
    assert alone == kept.get(name, set())


@pytest.mark.in_turn(together=True)
def test_rows_without_a_partner_have_their_own_outputs(world):
    """Pass: of `unmatched` and `unmatched_right` are the others that found none, and no late one."""
    assert {r["n"] for r in world.rows("lost")} == {2, 6, 11}


def chained(**above):
    """Return a document with a join that tells late rows below another one, and a source beside that."""
    return {
        "pipeline": "test",
        "sources": {side: source(side) for side in ("left", "right", "third")},
        "operators": {
            "pairs": join("left_semi", late=False, take=None) | above,
            "more": join("inner", take={"o": "n"})
            | {"from": {"left": ["pairs", "left"], "right": "third"}},
        },
        "sinks": {"out": {"use": "console", "from": "more"}},
    }


def test_below_a_step_that_holds_rows_back_a_relay_comes_between():
    """Pass: also where another stream without such a step comes to the same port; if it is forbidden, that is
    a problem of the document."""
    (relay,) = make_plan(chained()).relays
    assert (relay.stream.node, relay.why) == (
        "pairs",
        "more tells late rows by the watermark of its query, in which pairs would hold rows back",
    )
    with pytest.raises(DocumentError, match="in which pairs holds rows back"):
        make_plan(chained(relay=False))


def test_a_semi_join_has_no_such_output():
    """Pass: `late` with `left_semi` is a problem of the document."""
    document = {
        "pipeline": "test",
        "sources": {side: source(side) for side in ("left", "right")},
        "operators": {"pairs": join("left_semi", take=None)},
        "sinks": {"out": {"use": "console", "from": "pairs"}},
    }
    with pytest.raises(DocumentError, match="`join: left_semi` has no output `late`"):
        make_plan(document)
