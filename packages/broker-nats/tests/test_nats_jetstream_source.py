"""The source `jetstream` in documents: what is lost is told, and what goes wrong."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from mainstem import OptionError, PipelineError, Reached
from mainstem.history import History
from mainstem.observation.reporter import Silent
from mainstem_broker_nats.source.jetstream import JetStreamSource
from mainstem_broker_nats.source.options import JetStreamSourceOptions
from nats_streams import at, make_stream, publish, publish_many


def source(server, stream, **more):
    given = {"servers": server.url, "stream": stream, **more}
    return JetStreamSource(JetStreamSourceOptions.model_validate(given))


def document(pipeline, server, stream, *, lost=True, **more):
    sinks = {"out": _parquet("out", "log")}
    if lost:
        sinks["gone"] = _parquet("gone", "log.lost")
        more["on_loss"] = "report"
    given = {"servers": server.url, "stream": stream, "give_up": "10 s", **more}
    return pipeline.document(sources={"log": {"use": "jetstream", "with": given}}, sinks=sinks)


def _parquet(name, stream):
    return {"use": "files", "from": stream, "with": {"path": f"./{name}", "format": "parquet"}}


@pytest.mark.in_turn
def test_what_was_removed_while_the_job_was_down_is_told(nats, pipeline, spark):
    """Ten read; then more come, some are purged and one is deleted before the next run. Pass: rows once,
    in order, and the output `lost` has each gap with its count.
    """
    stream = make_stream(nats)
    document(pipeline, nats, stream)
    publish(nats, f"{stream}.a", range(1, 11))
    pipeline.run()
    publish(nats, f"{stream}.a", range(11, 31))
    at(nats, lambda js, _: js.purge_stream(stream, seq=16))
    at(nats, lambda js, _: js.delete_msg(stream, 20))
    pipeline.run()
    rows = sorted(pipeline.rows("out"), key=lambda row: row["position"])
    assert [int(row["value"]) for row in rows] == [*range(1, 11), *range(16, 20), *range(21, 31)]
    assert {row["partition"] for row in rows} == {stream}
    assert {row["origin"] for row in rows} == {f"{stream}.a"}
    lost = sorted(pipeline.rows("gone"), key=lambda row: row["from"])
    told = [(row["node"], int(row["from"]), int(row["to"]), row["count"]) for row in lost]
    assert told == [("log", 11, 15, 5), ("log", 20, 20, 1)]


@pytest.mark.in_turn
def test_what_is_lost_is_counted_where_nobody_reads_it(nats, pipeline, spark):
    """Nobody reads `lost`. Pass: the run goes on, its rows are right, and its counts tell."""
    stream = make_stream(nats)
    document(pipeline, nats, stream, lost=False, start=1, on_loss="report")
    publish(nats, f"{stream}.a", range(20))
    at(nats, lambda js, _: js.purge_stream(stream, seq=8))
    counts = Counter()

    class Counting(Silent):
        def batch(self, facts):
            counts.update(facts["nodes"]["log"])

    pipeline.run(reporter=Counting())
    assert len(pipeline.rows("out")) == 13
    assert counts == {"rows": 13, "lost": 1}  # one row for one gap


@pytest.mark.in_turn
def test_gaps_fail_the_run_unless_told_else(nats, pipeline, spark):
    """A message in the middle is deleted. Pass: the run fails, and says which."""
    stream = make_stream(nats)
    document(pipeline, nats, stream, lost=False)
    publish(nats, f"{stream}.a", range(10))
    at(nats, lambda js, _: js.delete_msg(stream, 5))
    with pytest.raises(PipelineError, match=r"lacks 5 to 5: deleted.*on_loss: report"):
        pipeline.run()
    assert pipeline.rows("out") == []


def test_going_on_after_losses_is_at_most_once(pipeline):
    """Pass: the plan promises at-most-once with `on_loss: report`, and says why; exactly-once with `fail`,
    also left out, where there is no output `lost`."""

    class Nowhere:
        url = "nats://nats.test"

    levels = {}
    for name, more in (("left out", {}), ("fail", {"on_loss": "fail"}), ("report", {})):
        document(pipeline, Nowhere, "S", lost=name == "report", **more)
        made = pipeline.plan().nodes["out"].promise
        levels[name] = (made.level, "`on_loss: report`" in " ".join(made.reasons))
    assert levels == {
        "left out": ("exactly-once", False),
        "fail": ("exactly-once", False),
        "report": ("at-most-once", True),
    }
    assert "lost" not in source(Nowhere, "S").outputs({})


@pytest.mark.in_turn
def test_headers_times_and_subjects(nats, pipeline, spark):
    """Messages with headers and without, to several subjects. Pass: each has its own in its row."""
    stream = make_stream(nats)
    document(pipeline, nats, stream)
    given = {"trace": "t-1", "Nats-Msg-Id": "one", "lost": '{"count": 1}'}
    publish(nats, f"{stream}.with", ["a"], given)
    publish(nats, f"{stream}.without", ["b"])
    pipeline.run()
    one, two = sorted(pipeline.rows("out"), key=lambda row: row["position"])
    assert dict(one["headers"]) == {name: text.encode() for name, text in given.items()}
    assert two["headers"] is None
    assert (one["key"], two["key"]) == (f"{stream}.with".encode(), f"{stream}.without".encode())
    assert (one["position"], two["position"]) == ("0" * 19 + "1", "0" * 19 + "2")
    assert abs(one["timestamp"].replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(minutes=5)


@pytest.mark.in_turn
def test_a_server_killed_under_a_running_job(nats, pipeline, spark):
    """Killed with kill -9 while a job of two tasks reads in small batches, and started again. Pass: each
    message once.
    """
    stream = make_stream(nats)
    publish_many(nats, f"{stream}.a", (b"%d" % number for number in range(30_000)))
    more = {"max_rows": 4_000, "partitions": 2, "rows_per_task": 1_000, "give_up": "60 s"}
    document(pipeline, nats, stream, **more)
    with pipeline.start() as process:
        process.wait_for(lambda: pipeline.rows("out"))
        nats.kill()
        nats.start()
        ended = process.wait()
    assert ended.returncode == 0, ended.stderr
    assert sorted(int(row["value"]) for row in pipeline.rows("out")) == list(range(30_000))
    assert pipeline.rows("gone") == []
    tasks = {file.name.split("-")[1] for file in pipeline.folder.glob("out/**/part-*")}
    assert {"00000", "00001"} <= tasks  # each batch was read by two


@pytest.mark.in_turn
def test_the_first_offset_is_looked_up_once(nats, pipeline, spark):
    """The first batch is cut by `kill -9`; then five of its messages are purged, and ten more come. Pass:
    the rest of the batch comes with what came later, and `lost` has the five.
    """
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(1, 11))
    document(pipeline, nats, stream)
    with pipeline.start(MAINSTEM_FAILPOINT="positions.after-ranges:1:kill") as process:
        assert process.wait().returncode != 0
    assert pipeline.rows("out") == []
    at(nats, lambda js, _: js.purge_stream(stream, seq=6))
    publish(nats, f"{stream}.a", range(11, 21))
    pipeline.run()
    rows = sorted(int(row["value"]) for row in pipeline.rows("out"))
    assert rows == list(range(6, 21))
    lost = [(int(row["from"]), int(row["to"]), row["count"]) for row in pipeline.rows("gone")]
    assert lost == [(1, 5, 5)]


@pytest.mark.in_turn
def test_latest_is_looked_up_once(nats, pipeline, spark):
    """The first run finds nothing new; then ten messages come. Pass: the second run has them."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(5))
    document(pipeline, nats, stream, lost=False, start="latest")
    pipeline.run()
    publish(nats, f"{stream}.a", range(5, 15))
    pipeline.run()
    assert sorted(int(row["value"]) for row in pipeline.rows("out")) == list(range(5, 15))


def test_a_replay_begins_where_it_is_told(nats):
    """Offsets, of this stream and of others, whole and by their sequence alone. Pass: taken or refused
    with what the stream has.
    """
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(20))
    at(nats, lambda js, _: js.purge_stream(stream, seq=6))
    whole = source(nats, stream)
    begun = whole.starting_at({"read": 10})
    assert begun._begin["read"] == {stream: 10}
    assert whole.starting_at(dict(begun._begin))._begin == begun._begin
    for wrong, said in (
        ({"read": 2}, "has the positions 6 to 20, and 3 was asked for"),
        ({"read": {stream: 21}}, "has the positions 6 to 20"),
        ({"read": 10, "log": "2001-01-01T00:00:00Z"}, r"of another log \(2001"),
        ({"read": {"other": 10}}, "there is no partition 'other'"),
        ({"read": "x"}, "expected an offset such as"),
        ({"offset": 3}, "expected an offset such as"),
    ):
        with pytest.raises(OptionError, match=said):
            whole.starting_at(wrong)


def test_what_is_gone_is_said(nats, tmp_path):
    """Purged, deleted, and a stream made anew. Pass: each is named, and nothing if all is there."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(20))
    whole = source(nats, stream)
    assert whole.gone(Reached(None, tmp_path, tmp_path)) == ""
    at(nats, lambda js, _: js.purge_stream(stream, seq=6))
    at(nats, lambda js, _: js.delete_msg(stream, 9))
    said = whole.gone(Reached(None, tmp_path, tmp_path))
    assert f"messages 1 to 5 of the stream {stream!r}" in said
    assert "1 deleted" in said
    other = {"log": "2001-01-01T00:00:00Z", "read": {stream: 12}}
    assert "made anew" in whole.gone(Reached(other, tmp_path, tmp_path))


def test_what_was_purged_before_it_was_read_is_not_missed(nats, pipeline, spark):
    """Pass: a checkpoint that began behind what the stream had removed has all that it was read for, until that
    is purged too, or the stream is made anew."""
    stream = make_stream(nats)
    publish(nats, f"{stream}.a", range(9))
    at(nats, lambda js, _: js.purge_stream(stream, seq=4))
    document(pipeline, nats, stream).run()
    (query, *_) = pipeline.plan().queries
    home = pipeline.plan().home("log")
    begun = History(pipeline.plan().query_folder(query.name)).beginning("log", home)
    assert source(nats, stream).gone(begun) == ""
    at(nats, lambda js, _: js.purge_stream(stream, seq=7))
    assert source(nats, stream).gone(begun) == f"messages 4 to 6 of the stream {stream!r}"
    at(nats, lambda js, _: js.delete_stream(stream))
    make_stream(nats, stream)
    assert "made anew" in source(nats, stream).gone(begun)


def test_the_lag_counts_what_is_read(nats, tmp_path):
    """A filter, twenty messages of which ten are read subjects' and four of these are done. Pass: six rows
    behind, and how long.
    """
    stream = make_stream(nats)
    publish(nats, lambda n: f"{stream}.{'ab'[n % 2]}", range(20))
    filtered = source(nats, stream, subjects=[f"{stream}.a"])
    begun = filtered.starting_at({"read": 8})._begin
    (lag,) = filtered.lag(Reached(dict(begun), tmp_path, tmp_path))
    assert (lag.partition, lag.rows) == (stream, 6)
    assert 0 < lag.seconds < 60
    (lag,) = filtered.lag(Reached(None, tmp_path, tmp_path))
    assert lag.rows == 10
    assert filtered.end(tmp_path) == {stream: "20"}


@pytest.mark.in_turn
def test_no_secret_is_in_what_spark_shows(nats, pipeline, spark):
    """The password is wrong for nobody, and looked for in plans and the checkpoint. Pass: not there."""
    stream = make_stream(nats)
    document(pipeline, nats, stream, user="anna", password="open-sesame")
    publish(nats, f"{stream}.a", range(3))
    pipeline.run()
    files = [file for file in pipeline.folder.rglob("*") if file.is_file()]
    shown = [
        file for file in files if file != pipeline.file and b"open-sesame" in file.read_bytes()
    ]
    assert shown == []
