"""A `Reading` through Spark: batches as its planner says, nothing of it shown, its errors as they are."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from mainstem import PipelineError, Planner, Reading
from mainstem.plan.build import make_plan
from mainstem.run.failures import explain
from mainstem.run.spark_source import ReadingStream, register
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructField, StructType

SECRET = "s3cret-of-the-far-side"


def counting(folder, *, fault="", closed=None):
    """Return a reading of the numbers below ten, three a batch: a class made here goes by value."""

    class Numbers(Planner):
        def __init__(self):
            self._note("made")

        def _note(self, what):
            with (folder / "notes").open("a") as notes:
                notes.write(f"{what}\n")

        def initial(self):
            return {"next": 0}

        def latest(self, start):
            if fault == "planning":
                raise PipelineError("the far side says 'no' to 'us'")
            return {"next": min(start["next"] + 3, self._end)}

        def prepare(self):
            self._end = 10

        def newest(self):
            return {"next": 10}

        def parts(self, start, end):
            self._note(f"parts {start['next']} {end['next']}")
            middle = (start["next"] + end["next"]) // 2
            return [(start["next"], middle), (middle, end["next"])]

        def committed(self, end):
            self._note(f"committed {end['next']}")

        def close(self):
            self._note("closed")

    class Counting(Reading):
        password = SECRET

        def schema(self):
            return "n BIGINT"

        def planner(self):
            return Numbers()

        def read(self, part, schema):
            if fault == "reading":
                raise PipelineError("the far side says 'no' to 'us'")
            try:
                for n in range(*part):
                    yield pa.RecordBatch.from_pydict({"n": [n]}, schema=schema)
            finally:
                if closed is not None:
                    closed.append(part)

    return Counting()


def run(spark, reading, checkpoint):
    """Return the batches of one run, and the last progress."""
    batches = []
    query = (
        spark.readStream.name("far").format(register(spark, reading, "far", str(checkpoint))).load()
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(lambda batch, _: batches.append(sorted(row.n for row in batch.collect())))
        .start()
    )  # fmt: skip
    assert query.awaitTermination(60)
    return batches, query


@pytest.mark.in_turn
def test_batches_are_what_the_planner_says(spark, tmp_path):
    """Pass: each number once, in batches of three; the planner is told what is done, but for the last batch;
    and another run has nothing new."""
    batches, query = run(spark, counting(tmp_path), tmp_path / "checkpoint")
    assert batches == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    notes = (tmp_path / "notes").read_text().splitlines()
    told = [note for note in notes if note.startswith("committed")]
    assert told == ["committed 3", "committed 6", "committed 9"]
    assert notes.count("made") == 1, "executors make no planner"
    assert json.loads(query.lastProgress.sources[0].latestOffset) == {"next": 10}
    assert run(spark, counting(tmp_path), tmp_path / "checkpoint")[0] == []


@pytest.mark.in_turn
def test_a_batch_that_is_tried_again_is_the_same(spark, tmp_path):
    """Its commit is taken away. Pass: the same parts are asked for, and the same rows come."""
    checkpoint = tmp_path / "checkpoint"
    run(spark, counting(tmp_path), checkpoint)
    for file in (checkpoint / "commits").glob("*3*"):
        file.unlink()
    (tmp_path / "notes").unlink()
    assert run(spark, counting(tmp_path), checkpoint)[0] == [[9]]
    assert "parts 9 10" in (tmp_path / "notes").read_text().splitlines()


@pytest.mark.parametrize("fault", ["planning", "reading"])
@pytest.mark.in_turn
def test_its_errors_are_told_as_they_are(spark, tmp_path, fault):
    """Pass: a user is shown the node and the plugin's text, quoted names too, and no traceback."""
    with pytest.raises(StreamingQueryException) as failed:
        run(spark, counting(tmp_path, fault=fault), tmp_path / "checkpoint")
    sinks = {"out": {"use": "console", "from": "far"}}
    plan = make_plan({"pipeline": "p", "sources": {"far": {"use": "rate"}}, "sinks": sinks})
    told = explain(failed.value, plan, "out")
    assert str(told) == "far: the far side says 'no' to 'us'"
    assert told.node == "far"


@pytest.mark.in_turn
def test_nothing_of_it_is_shown(spark, tmp_path):
    """Pass: what a reading holds is in no plan, no option and no file of the checkpoint."""
    frame = (
        spark.readStream.name("far")
        .format(register(spark, counting(tmp_path), "far", "far"))
        .load()
    )
    assert SECRET not in frame._jdf.queryExecution().analyzed().toString()
    _, query = run(spark, counting(tmp_path), tmp_path / "checkpoint")
    assert SECRET not in query.lastProgress.json
    files = [file for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
    assert files
    assert not any(SECRET.encode() in file.read_bytes() for file in files)


def test_a_read_that_spark_ends_early_is_closed(tmp_path):
    """Pass: the generator has come to its end, and no planner was made."""
    closed = []
    schema = StructType([StructField("n", LongType())])
    rows = ReadingStream(schema, counting(tmp_path, closed=closed), "far").read(
        InputPartition((0, 3))
    )
    assert next(rows).to_pydict() == {"n": [0]}
    assert closed == []
    rows.close()
    assert closed == [(0, 3)]
    assert not (tmp_path / "notes").exists()
