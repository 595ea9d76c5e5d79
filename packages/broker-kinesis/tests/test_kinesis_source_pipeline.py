"""The source in whole pipelines over an emulator: columns, `rejected`, `lost`, ids, lag, the promise."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest
from kinesis_streams import Stream
from mainstem import Reached
from mainstem_broker_kinesis.aggregation import aggregated, packed, to_tags
from mainstem_broker_kinesis.source import receiver as receiver_module
from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.places import Cursor, Place
from mainstem_broker_kinesis.source.source import KinesisSource
from mainstem_ingress.log import Log, keep_cursor

TEXT = {
    "use": "select",
    "from": "rows",
    "with": {"columns": {"v": "STRING(value)", "k": "STRING(key)"}},
}


def source(stream, **more):
    return {
        "stream": stream.name,
        "endpoint": stream.server.url,
        "region": "us-east-1",
        "access_key": "test",
        "secret_key": "a-secret-key",
        "poll_every": "50 ms",
        **more,
    }


@pytest.fixture
def stream(kinesalite):
    return Stream(kinesalite, 2)


@pytest.mark.in_turn
def test_aggregates_come_apart_and_broken_ones_are_rejected(stream, pipeline):
    """Pass: each record of an aggregate is a row, second copies by the sink's identity are dropped, a broken
    aggregate is in `rejected` with its bytes and the reason, and the plan says exactly-once."""
    whole = aggregated([packed(b"a"), packed(b"b")], b"key")
    known = aggregated([packed(b"c", to_tags(bytes(16), []))], b"key")
    for data in (whole, known, known, whole[:-1] + b"!", b"d"):
        stream.server.put(stream.name, "key", data)
    pipeline.document(
        sources={"rows": {"use": "kinesis", "with": source(stream, ids="when_given")}},
        operators={"text": TEXT},
        sinks={"out": pipeline.sink("out", "text"), "bad": pipeline.sink("bad", "rows.rejected")},
    )
    pipeline.run()
    assert Counter(row["v"] for row in pipeline.rows("out")) == Counter("abcd")
    assert {row["k"] for row in pipeline.rows("out")} == {"key"}
    (bad,) = pipeline.rows("bad")
    assert bad["reason"] == "a broken aggregate: its MD5 is not that of what it holds"
    promised = {sink.name: sink.promise.level for sink in pipeline.plan().sinks()}
    assert set(promised.values()) == {"exactly-once"}


@pytest.mark.slow
def test_what_the_stream_has_dropped_comes_out_of_lost(stream, pipeline):
    """Pass: with a cursor that is two days old, a row for each shard tells since when; what is there comes."""
    stream.put(6)
    log = pipeline.folder / "log"
    folder = Log(log).receiver(0)
    folder.mkdir(parents=True)
    receiver = receiver_module.KinesisReceiver(
        KinesisSourceOptions.model_validate(source(stream)), 0, "rows"
    )
    receiver.connect(None)
    began = Cursor.decoded(receiver.cursor())
    receiver.close()
    old = int(time.time() // 60) - 2 * 24 * 60
    places = {shard: Place(place.text, old) for shard, place in began.places.items()}
    keep_cursor(folder, 0, Cursor(began.stream, began.created, 1, places).encoded())
    pipeline.document(
        sources={
            "rows": {
                "use": "kinesis",
                "with": source(stream, on_loss="report", folder="./log"),
                "on_rejected": "drop",
            }
        },
        operators={"text": TEXT},
        sinks={"out": pipeline.sink("out", "text"), "gone": pipeline.sink("gone", "rows.lost")},
    )
    pipeline.run()
    assert sorted(int(row["v"]) for row in pipeline.rows("out")) == list(range(6))
    gone = pipeline.rows("gone")
    assert {row["partition"] for row in gone} == set(places)
    assert all("was read up to" in row["reason"] and row.get("count") is None for row in gone)
    assert {row["node"] for row in gone} == {"rows"}


@pytest.mark.in_turn
def test_lag_tells_how_far_the_log_is_behind_each_shard(stream, tmp_path):
    """Pass: nothing before a log begins; nothing behind when all is read; a shard with more has an age."""
    made = KinesisSource(KinesisSourceOptions.model_validate(source(stream)))
    reached = Reached(None, tmp_path, tmp_path)
    assert made.lag(reached) == []
    stream.put(4)
    receiver = receiver_module.KinesisReceiver(made.options, 0, "rows")
    receiver.connect(None)
    folder = Log(tmp_path).receiver(0)
    folder.mkdir(parents=True)
    taken = []
    while len(taken) < 4:
        taken += receiver.take(0.1)
    keep_cursor(folder, 0, receiver.cursor())
    receiver.close()
    found = {lag.partition: lag for lag in made.lag(reached) if lag.partition.startswith("shard")}
    assert set(found) == set(stream.open())
    assert all((lag.rows, lag.seconds) == (None, 0.0) for lag in found.values())
    stream.put(4)
    time.sleep(2.1)  # the stream's clock is known by whole seconds
    ages = {lag.partition: lag.seconds for lag in made.lag(reached) if lag.partition in found}
    assert max(ages.values()) >= 1


@pytest.mark.slow
def test_a_run_ends_when_the_stream_is_not_there(stream, pipeline):
    """Pass: exit 1 with the cause, and neither the command's output nor its errors have a secret."""
    pipeline.document(
        sources={
            "rows": {
                "use": "kinesis",
                "with": source(stream) | {"stream": "nowhere"},
                "on_rejected": "drop",
            }
        },
        sinks={"out": pipeline.sink("out", "rows")},
        trigger={"every": "1 second"},
    )
    ended = pipeline.command()
    assert ended.returncode == 1
    assert "stream nowhere at http" in ended.stderr
    assert "a-secret-key" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, {"ordered": True}),
        ({"receivers": 2}, {"ordered": False}),
    ],
)
def test_the_promise_says_what_it_rests_on(options, told):
    """Pass: each record once; the order with one receiver alone; assumptions in words."""
    made = KinesisSource(KinesisSourceOptions(stream="clicks", **options)).capabilities
    assert not made.may_duplicate
    assert not made.lossy
    assert made.ordered == told["ordered"]
    assert any("before the stream drops them" in text for text in made.assumptions)
    assert any("does not matter" in text for text in made.assumptions) != told["ordered"]


@pytest.mark.parametrize(
    ("on_loss", "level"), [("fail", "exactly-once"), ("report", "at-most-once")]
)
def test_who_goes_on_over_a_loss_promises_less(pipeline, on_loss, level):
    """Pass: the plan's guarantee, and its reason in words."""
    given = {"stream": "clicks", "region": "eu-central-1", "on_loss": on_loss}
    pipeline.document(
        sources={"rows": {"use": "kinesis", "with": given, "on_rejected": "drop"}},
        sinks={"out": pipeline.sink("out", "rows")},
    )
    (sink,) = pipeline.plan().sinks()
    assert sink.promise.level == level
    told = [text for text in sink.promise.reasons if "on_loss" in text]
    assert bool(told) == (on_loss == "report")


def test_cursors_hold_no_secrets(stream):
    """Pass: the file and the segments' headers have the stream and its shards alone."""
    receiver = receiver_module.KinesisReceiver(
        KinesisSourceOptions.model_validate(source(stream)), 0, "rows"
    )
    receiver.connect(None)
    facts = json.loads(receiver.cursor())
    receiver.close()
    assert set(facts) == {"format", "stream", "created", "receivers", "places"}
