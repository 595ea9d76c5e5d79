"""Joins of joins, of a stream with itself, and the ids of what comes out, on Spark."""

from __future__ import annotations

from datetime import timedelta

import pytest
from mainstem_testkit.pipelines import PipelineFolder
from stream_stream_world import AFTER, BATCHES, BEFORE, DELAY, feed, ordered, random_rows

#: All of it takes what two runs have made.
pytestmark = pytest.mark.in_turn(together=True)

SCHEMA = "c INT, k STRING, n BIGINT, at TIMESTAMP"
CLOSE = timedelta(minutes=2)
WITHIN = {"before": "3 minutes", "after": "5 minutes"}


def source(name, files):
    options = {"path": f"./{name}", "format": "jsonlines", "schema": SCHEMA, "max_files": files}
    return {"use": "files", "with": options, "watermark": {"column": "at", "delay": DELAY}}


def join(left, right, kind, within, **take):
    given = {"on": ["c", "k"], "within": within, "join": kind, "take": take}
    return {"use": "stream_stream_join", "from": {"left": left, "right": right}, "with": given}


def document(pipeline, name, files):
    """Write a document whose rows all go to sinks of that name, through batches of so many files."""
    pipeline.document(
        pipeline=name,
        trigger={"available_now": True, "flush": True},
        sources={side: source(side, files) for side in ("left", "right", "third")},
        operators={
            "two": join("left", "right", "left", WITHIN, m="n", seen="at"),
            "three": join("two", "third", "left", WITHIN, o="n"),
            "itself": join("left", "left", "inner", {"after": "2 minutes"}, m="n", seen="at"),
            "told": {"use": "encode", "from": "itself", "with": {"format": "json"}},
            # Refuses each row, and so tells its id.
            "heard": {
                "use": "decode",
                "from": "told",
                "with": {"format": "json", "schema": "k INT"},
            },
        },
        sinks={
            f"three_{name}": pipeline.sink(f"three_{name}", "three"),
            f"itself_{name}": pipeline.sink(f"itself_{name}", "itself"),
            f"ids_{name}": pipeline.sink(f"ids_{name}", "heard.rejected"),
            f"none_{name}": pipeline.sink(f"none_{name}", "heard"),
        },
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory, spark):
    pipeline = PipelineFolder(tmp_path_factory.mktemp("chains"))
    sides = random_rows(seed=5)
    sides["third"] = random_rows(seed=6)["left"]
    for side, batches in sides.items():
        for batch in range(BATCHES):
            feed(pipeline.folder / side, f"{batch}.json", batches[batch], batch)
    for name, files in (("slow", 1), ("fast", 100)):
        document(pipeline, name, files)
        pipeline.run()
    rows = {side: [r for batch in batches for r in batch] for side, batches in sides.items()}
    return pipeline, rows


def partners(row, others, before, after):
    """Return the rows that belong to a row."""
    if row["k"] is None or row["at"] is None:
        return []
    return [
        other
        for other in others
        if (other["c"], other["k"]) == (row["c"], row["k"])
        and other["at"] is not None
        and row["at"] - before <= other["at"] <= row["at"] + after
    ]


@pytest.mark.parametrize("name", ["slow", "fast"])
def test_a_chain_of_three_goes_on_with_one_event_time(world, name):
    """Pass: each left row with each of its partners in both others, or none: however it was cut."""
    pipeline, rows = world
    expected = [
        (row["n"], two and two["n"], three and three["n"])
        for row in rows["left"]
        for two in partners(row, rows["right"], BEFORE, AFTER) or [None]
        for three in partners(row, rows["third"], BEFORE, AFTER) or [None]
    ]
    found = [(r["n"], r.get("m"), r.get("o")) for r in pipeline.rows(f"three_{name}")]
    assert sum(all(triple) for triple in expected) >= 5
    assert sum(triple[1] is None for triple in expected) > 10
    assert ordered(found) == ordered(expected)


def itself(rows):
    return [
        (row["n"], other["n"])
        for row in rows["left"]
        for other in partners(row, rows["left"], timedelta(0), CLOSE)
    ]


@pytest.mark.parametrize("name", ["slow", "fast"])
def test_a_stream_joined_with_itself(world, name):
    """Pass: each row with itself and with those that follow closely, once."""
    pipeline, rows = world
    found = [(row["n"], row["m"]) for row in pipeline.rows(f"itself_{name}")]
    assert len(found) > len(rows["left"]) / 2
    assert ordered(found) == ordered(itself(rows))


def test_the_id_of_a_pair_is_made_of_both_ids_and_the_same_however_batches_are_cut(world):
    """Pass: as many ids as pairs, the same ones in another run over the same files."""
    pipeline, rows = world
    slow, fast = ([row["_id"] for row in pipeline.rows(f"ids_{n}")] for n in ("slow", "fast"))
    assert None not in slow
    assert len(set(slow)) == len(slow) == len(itself(rows))
    assert sorted(slow) == sorted(fast)
