"""PySpark before 4.3 records how far sources are read by their order: it is kept, and held to."""

from __future__ import annotations

import json

import pyspark
import pytest
from mainstem import PipelineError
from mainstem.durable import write_whole
from mainstem.history import History
from mainstem.run.source_order import keep_order


def streams(spark, folder, *names):
    """A frame of streams of these names, and of one that is no stream."""
    frame = spark.createDataFrame([], "value STRING")
    for name in names:
        frame = frame.unionByName(spark.readStream.name(name).text(str(folder)))
    return frame


@pytest.fixture
def older(monkeypatch):
    """Be a PySpark that names no sources."""
    monkeypatch.setattr(pyspark, "__version__", "4.2.1")


def plan(history, batch, lines, version="v1"):
    file = history.folder / "offsets" / str(batch)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([version, '{"batchTimestampMs":7}', *lines]) + "\n")


def test_offsets_are_read_by_the_order_that_was_kept(tmp_path, spark, older):
    """Pass: each source has its own; one without an offset has none; names come in the plan's order."""
    history = History(tmp_path / "q")
    keep_order(history, streams(spark, tmp_path, "z", "a", "m"))
    assert history.source_order() == ["z", "a", "m"]
    plan(history, 0, ['{"logOffset":3}', "-", '"of a:b"'])
    assert history.offsets(0).ends == {"z": {"logOffset": 3}, "a": None, "m": "of a:b"}
    keep_order(history, streams(spark, tmp_path, "z", "a", "m"))


def test_streams_of_a_query_in_sql_are_in_the_order_of_its_definitions(tmp_path, spark, older):
    """Pass: as Spark numbers them: what `WITH` defines first, and each once, however often it is read."""
    for name in ("a", "b"):
        streams(spark, tmp_path, name).createOrReplaceTempView(f"order_{name}")
    both = "SELECT value FROM order_a UNION ALL SELECT value FROM order_a"
    query = f"WITH x AS (SELECT value, uuid() FROM order_b) {both} UNION ALL SELECT value FROM x"
    history = History(tmp_path / "q")
    keep_order(history, spark.sql(f"{query} UNION ALL SELECT value FROM x"))
    assert history.source_order() == ["b", "a"]


@pytest.mark.parametrize("now", [["a", "z"], ["z"], ["z", "a", "m"], ["z", "b"]])
def test_another_order_is_refused_once_a_batch_is_planned(tmp_path, spark, older, now):
    """Pass: both orders are told, and the old one stays; before the first batch the new one is kept."""
    history = History(tmp_path / "q")
    keep_order(history, streams(spark, tmp_path, *now))
    keep_order(history, streams(spark, tmp_path, "z", "a"))
    plan(history, 0, ["-", "-"])
    with pytest.raises(PipelineError, match=f"which was z, a and is {', '.join(now)} now.*--fresh"):
        keep_order(history, streams(spark, tmp_path, *now))
    assert history.source_order() == ["z", "a"]


def test_records_that_nobody_can_read_are_an_error(tmp_path):
    """Pass: without an order, with one of another length, of an unknown version: told, and never guessed."""
    history = History(tmp_path)
    plan(history, 0, ["-", "-"])
    with pytest.raises(ValueError, match="their order is not on record"):
        history.offsets(0)
    write_whole(history.order_file, json.dumps(["a"]))
    with pytest.raises(ValueError, match="offsets/0 has 2 sources, and not 1"):
        history.offsets(0)
    plan(history, 1, [], version="v3")
    with pytest.raises(ValueError, match="unknown version 'v3'"):
        history.offsets(1)


@pytest.mark.parametrize("begun", [True, False])
def test_what_an_older_pyspark_has_begun_a_newer_one_refuses(tmp_path, spark, begun, monkeypatch):
    """Pass: if a batch was planned; else it starts as if nothing were there."""
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    history = History(tmp_path / "q")
    history.folder.mkdir()
    write_whole(history.order_file, json.dumps(["a"]))
    if begun:
        plan(history, 0, ["-"])
        with pytest.raises(PipelineError, match=r"begun with a PySpark before 4\.3"):
            keep_order(history, streams(spark, tmp_path, "a"))
    else:
        keep_order(history, streams(spark, tmp_path, "a"))
    assert history.order_file.exists() == begun
