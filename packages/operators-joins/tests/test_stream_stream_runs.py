"""`stream_stream_join` on Spark, in batches and over a restart, against a database's join of all rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from mainstem_testkit.pipelines import PipelineFolder
from stream_stream_world import (
    ALONE_CASE,
    BATCHES,
    DELAY,
    ENDS_CASE,
    KAFKA_CASE,
    NULLS_CASE,
    feed,
    oracle,
    ordered,
    random_rows,
    told_rows,
)

#: All of it takes what two runs have made.
pytestmark = pytest.mark.in_turn(together=True)

SCHEMA = "c INT, k STRING, n BIGINT, at TIMESTAMP, v STRING"
WITHIN = {"before": "3 minutes", "after": "5 minutes"}
JOINS = ("inner", "left", "right", "full", "left_semi")
TAKE = {"m": "n", "w": "v", "seen": "at"}


def source(name):
    options = {"path": f"./{name}", "format": "jsonlines", "schema": SCHEMA, "max_files": 1}
    return {
        "use": "files",
        "with": options,
        "watermark": {"column": "at", "delay": DELAY},
    }


def join(kind, left="left", right="right", on=("c", "k"), **options):
    if kind != "left_semi":
        options.setdefault("take", TAKE)
    given = {"on": list(on), "within": WITHIN, "join": kind, **options}
    return {
        "use": "stream_stream_join",
        "from": {"left": left, "right": right},
        "with": given,
    }


def told(stream, name, m="m", w="w", **columns):
    """Return a step that brings the rows of any join into the same columns, with its name."""
    given = {"j": f"'{name}'", "c": "c", "n": "n", "m": m, "v": "v", "w": w, "at": "at", **columns}
    return {"use": "select", "from": stream, "with": {"columns": given}}


def document(pipeline, flush):
    nulls = {"m": "CAST(NULL AS BIGINT)", "w": "CAST(NULL AS STRING)"}
    lost = {"n": "CAST(NULL AS BIGINT)", "m": "n", "v": "CAST(NULL AS STRING)", "w": "v"}
    operators = {f"join_{kind}": join(kind, unmatched=kind == "inner") for kind in JOINS}
    for kind in JOINS:
        more = nulls if kind == "left_semi" else {}
        operators[f"told_{kind}"] = told(f"join_{kind}", kind, **more)
    operators["told_unmatched"] = told("join_inner.unmatched", "unmatched", **nulls)
    operators["told_unmatched_right"] = told(
        "join_inner.unmatched_right", "unmatched_right", **lost
    )
    whole = [f"told_{kind}" for kind in JOINS if kind != "inner"]
    pipeline.document(
        trigger={"available_now": True, "flush": flush},
        sources={"left": source("left"), "right": source("right")},
        operators=operators,
        sinks={
            "out": pipeline.sink("out", whole),
            "inner": pipeline.sink("inner", "told_inner"),
            "lost": pipeline.sink("lost", ["told_unmatched", "told_unmatched_right"]),
        },
    )


class World:
    """What went in and what came out."""

    def __init__(self, pipeline, seed):
        self.pipeline = pipeline
        sides, more = random_rows(seed), told_rows()
        for side, batches in sides.items():
            batches[0] += more[side]
        self.rows = {side: [r for rows in batches for r in rows] for side, batches in sides.items()}
        for half, batches in enumerate((range(3), range(3, BATCHES))):
            document(pipeline, flush=half == 1)
            for batch in batches:
                for side, all_rows in sides.items():
                    feed(pipeline.folder / side, f"{batch}.json", all_rows[batch], batch)
            summary = pipeline.run()
            assert not any(query["late_rows"] for query in summary["queries"].values())
            if not half:
                self.early = self.found()
        self.whole = self.found()

    def found(self):
        rows = [row for name in ("out", "inner", "lost") for row in self.pipeline.rows(name)]
        return [{key: row.get(key) for key in ("j", "c", "n", "m", "v", "w")} for row in rows]

    def pairs(self, kind, rows=None):
        rows = self.whole if rows is None else rows
        return ordered((row["n"], row["m"]) for row in rows if row["j"] == kind)

    def values(self, kind, case):
        rows = [row for row in self.whole if row["j"] == kind and row["c"] == case]
        return sorted(((row["v"], row["w"]) for row in rows), key=str)


@pytest.fixture(scope="module")
def world(tmp_path_factory, spark):
    return World(PipelineFolder(tmp_path_factory.mktemp("joins")), seed=11)


@pytest.mark.parametrize(
    "kind", ["inner", "left", "right", "full", "left_semi", "unmatched", "unmatched_right"]
)
def test_what_comes_out_is_what_a_database_makes_of_all_rows(world, kind):
    """Pass: each pair, and each row without a partner, once: over batches, a restart and the flush at the
    end; null keys and null times match nothing.
    """
    word = {"left_semi": "semi"}.get(kind, kind)
    expected = oracle(world.rows["left"], world.rows["right"], word)
    assert len(expected) > 20
    assert world.pairs(kind) == expected


@pytest.mark.parametrize("kind", ["left", "right", "full", "unmatched", "unmatched_right"])
def test_rows_without_a_partner_come_out_when_the_watermark_passes_not_before(world, kind):
    """Pass: some come in the first run, without a flush, so state is let go; none that finds one later."""
    early = [pair for pair in world.pairs(kind, world.early) if None in pair]
    timed = {
        row["n"] for rows in world.rows.values() for row in rows if row["at"] and row["k"] == "a"
    }
    assert [pair for pair in early if (set(pair) - {None}) & timed]
    late = Counter(pair for pair in world.pairs(kind) if None in pair)
    assert Counter(early) < late


A, B, C, D = [[(left, right) for right in "abcd"] for left in "ABCD"]


@pytest.mark.parametrize("kind", ["inner", "left", "full"])
def test_the_truth_table_of_kafka_streams(world, kind):
    """Pass: the pairs of Kafka's table, whatever the join, since all of its rows find partners.

    Kafka gives each pair as soon as its second row comes, and so does this, with the batch. A row without
    a partner comes out of both only when its window has closed (in Kafka since 3.1). Where they differ:
    Kafka leaves out records whose value is null. Here a row is a row: leave out what should not join by
    a `select`.
    """
    assert world.values(kind, KAFKA_CASE) == sorted([*A, *B, *C, *D])
    assert world.values(kind, ALONE_CASE) == ([] if kind == "inner" else [("alone", None)])
    with_nulls = world.values(kind, NULLS_CASE)
    assert len(with_nulls) == 7 * 8  # left rows, right rows


def test_both_ends_of_within_belong_to_it(world):
    """Pass: rows exactly as far apart as allowed are pairs, a microsecond more and they are not."""
    assert world.values("inner", ENDS_CASE) == [("A", "first"), ("A", "last")]
    assert world.values("unmatched_right", ENDS_CASE) == [(None, "too early"), (None, "too late")]


def test_a_flush_completes_what_an_earlier_run_read(tmp_path):
    """Pass: the first run leaves the latest row waiting; the second reads nothing new, and lets it out
    although the streams' delays differ; a third finds nothing to do, and the next hour is not late.
    """
    pipeline = PipelineFolder(tmp_path)

    def run(flush):
        punctual = {**source("right"), "watermark": {"column": "at", "delay": "1 second"}}
        pipeline.document(
            trigger={"available_now": True, "flush": flush},
            sources={"left": source("left"), "right": punctual},
            operators={"both": join("left")},
            sinks={"out": pipeline.sink("out", "both")},
        )
        summary = pipeline.run()
        return [(row["n"], row.get("m")) for row in pipeline.rows("out")], summary

    def rows(side, number, minute):
        row = {
            "c": 1,
            "k": "a",
            "n": number,
            "at": datetime(2026, 1, 1, 10, minute, tzinfo=UTC),
            "v": "x",
        }
        feed(pipeline.folder / side, f"{number}.json", [row], number)

    rows("left", 1, 10)
    rows("right", 2, 30)
    assert run(flush=False)[0] == []
    assert run(flush=True)[0] == [(1, None)]
    assert run(flush=True)[0] == [(1, None)]
    rows("left", 3, 50)
    rows("right", 4, 51)
    found, summary = run(flush=True)
    assert found == [(1, None), (3, 4)]
    assert not any(query["late_rows"] for query in summary["queries"].values())
