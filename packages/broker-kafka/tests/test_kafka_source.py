"""The source `kafka`: columns, where it starts, what is written while it reads."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from confluent_kafka import KafkaException
from kafka_reading import document, running, values
from mainstem_broker_kafka.source.offsets import Brokers, Partition
from mainstem_broker_kafka.source.options import KafkaSourceOptions
from mainstem_testkit.pipelines import PipelineFolder, wait_for


@pytest.mark.in_turn
def test_a_time_that_most_programs_make_an_error_of_is_a_header_and_no_time(pipeline, topics):
    """Pass: microseconds that were sent for milliseconds give no time, and their number stays, whatever header of
    that name came."""
    topic = topics.make(retention_ms=-1, message_timestamp_after_max_ms=2**63 - 1)
    own = ("mainstem-timestamp", b"forged")
    topics.put(topic, ["a"], headers=[("x", b"1"), own], timestamp=1_711_848_600_000_000)
    topics.put(topic, ["b"], timestamp=1_711_848_600_000)
    document(pipeline, topics.source(topic)).run()
    first, second = sorted(pipeline.rows("out"), key=lambda row: row["position"])
    assert first.get("timestamp") is None
    number = base64.b64encode(b"1711848600000000").decode()
    assert first["headers"] == {"x": "MQ==", "mainstem-timestamp": number}
    assert second["timestamp"] == "2024-03-31T01:30:00.000000Z"


def poison(topics, topic, partition=1):
    topics.put(topic, ["poison"], partition, timestamp=1_711_848_600_000_000_000)


def timeless(topics, partitions=2):
    return topics.make(
        partitions=partitions, retention_ms=-1, message_timestamp_after_max_ms=2**63 - 1
    )


@pytest.mark.in_turn
def test_a_time_that_sparks_reader_cannot_hold_ends_no_run(pipeline, topics):
    """Pass: a message with such a time comes while a run goes on, which reads it, without a time, and all
    behind it, each once; Spark's own reader fails by `long overflow`. What a later run reads, and one that
    Spark's reader can go on with when the topic no longer has the message, is there once too."""
    topic = timeless(topics)
    topics.put(topic, ["a", "b"], 1)
    document(pipeline, topics.source(topic), trigger={"every": "100 ms"})
    with running(pipeline):
        wait_for(lambda: values(pipeline) == ["a", "b"], 60)
        poison(topics, topic)
        topics.put(topic, ["c"], 1)
        topics.put(topic, ["d"], 0)
        wait_for(lambda: len(values(pipeline)) == 5, 60)
    found = {row["value"]: row for row in pipeline.rows("out")}
    assert found["poison"].get("timestamp") is None
    assert found["poison"]["position"] == f"{2:019d}"
    number = base64.b64encode(b"1711848600000000000").decode()
    assert found["poison"]["headers"] == {"mainstem-timestamp": number}
    assert found["c"]["timestamp"] > "2026"
    poison(topics, topic, 0)
    document(pipeline, topics.source(topic))
    pipeline.run()
    assert sorted(values(pipeline)) == ["a", "b", "c", "d", "poison", "poison"]
    topics.trim(topic, 2, 0)
    topics.trim(topic, 3, 1)
    topics.put(topic, ["e"], 0)
    pipeline.run()
    assert sorted(values(pipeline)) == ["a", "b", "c", "d", "e", "poison", "poison"]


@pytest.mark.in_turn
def test_the_second_client_reads_what_spark_reads(pipeline, topics, tmp_path):
    """Pass: headers of one name, nulls, aborted transactions, one that ends a partition, ranges of many
    tasks: the rows of a topic with a time that Spark's reader can't hold are those of a topic without it."""
    rows = {}
    for name in ("spark", "second"):
        topic = timeless(topics, 3)
        topics.put(
            topic,
            ["a"],
            0,
            key="k",
            headers=[("x", b"1"), ("y", None), ("x", b"2")],
            timestamp=1_000,
        )
        topics.put(topic, [None], 0, key="gone", timestamp=2_000)
        topics.put(topic, [b"\x00\xff"], 0, headers=[("only", b"\x00\xff")], timestamp=3_000)
        topics.put(topic, [f"{n}" for n in range(50)], 1, timestamp=4_000)
        topics.transaction(topic, ["aborted"], abort=True, partition=0)
        wait_for(
            lambda name=topic: topics.end(name) == 5
        )  # the mark of the abort comes after the answer
        topics.put(topic, ["after"], 0, timestamp=5_000)
        topics.transaction(topic, ["committed"], partition=1)  # which sets its own time
        if name == "second":
            poison(topics, topic, 2)
        folder = PipelineFolder(tmp_path / name) if name == "second" else pipeline
        document(folder, topics.source(topic, min_partitions=5, max_rows=20)).run()
        found = [{**row, "origin": "topic"} for row in folder.rows("out")]
        found.sort(key=lambda row: (row["partition"], row["position"]))
        found = [row for row in found if row.get("value") != "poison"]
        assert found[-1].pop("timestamp") > "2026"
        rows[name] = found
    assert rows["second"] == rows["spark"]
    assert len(rows["spark"]) == 55


@pytest.mark.in_turn
def test_messages_have_all_columns(pipeline, spark, topics):
    """Pass: key, value, headers, time, topic, partition and fixed-width position come as written; null
    values and null header values are null; of headers with one name the last counts."""
    topic = topics.make(retention_ms=-1)  # one message is old
    topics.put(
        topic, ["a"], key="k", headers=[("x", b"1"), ("y", None), ("x", b"2")], timestamp=1_000
    )
    topics.put(topic, [None], key="gone")
    topics.put(topic, [b"plain"], headers=[("only", b"\x00\xff")])
    document(pipeline, topics.source(topic)).run()
    first, second, third = sorted(pipeline.rows("out"), key=lambda row: row["position"])
    assert (first["key"], first["value"], first["origin"], first["partition"]) == (
        "k",
        "a",
        topic,
        "0",
    )
    assert first["timestamp"] == "1970-01-01T00:00:01.000000Z"
    assert first["headers"] == {"x": "Mg==", "y": None}
    assert [row["position"] for row in (first, second, third)] == [f"{n:019d}" for n in range(3)]
    assert second["key"] == "gone"
    assert second.get("value") is None
    assert second["headers"] == {}
    assert third["headers"] == {"only": "AP8="}


@pytest.mark.slow
def test_a_start_is_found_out_once(pipeline, topics, quick_java):
    """Pass: a run that begins at `latest` is killed in its first batch, with messages written since; the next
    run reads just what came after the start of the first."""
    topic = topics.make()
    topics.put(topic, ["before"])
    source = topics.source(topic, start="latest")
    document(pipeline, source, trigger={"every": "200 ms"})
    with pipeline.start(MAINSTEM_FAILPOINT="run.before-batch:1") as process:
        initial = pipeline.folder / "checkpoints/test/queries/messages/sources/messages/0"
        process.wait_for(initial.exists)
        topics.put(topic, ["first", "second"])
        process.wait()
    topics.put(topic, ["third"])
    document(pipeline, source).run()
    assert sorted(values(pipeline)) == ["first", "second", "third"]


@pytest.mark.in_turn
def test_reading_starts_at_a_time_or_at_offsets(pipeline, spark, topics, tmp_path):
    """Pass: a time gives what was written since, in each partition, and offsets give what is at them; a
    partition left out begins at its beginning."""
    topic = topics.make(2, retention_ms=-1)  # its messages are old
    for partition in range(2):
        topics.put(topic, ["early"], partition, timestamp=_millis("2026-03-01T00:00:00"))
        topics.put(topic, ["late"], partition, timestamp=_millis("2026-03-01T00:00:10"))
    starts = {
        "2026-03-01T00:00:05": ["late", "late"],
        "2026-03-01": ["early", "early", "late", "late"],
        "latest": [],
    }
    cases = [*starts.items(), ({topic: {0: 1}}, ["early", "late", "late"])]
    for number, (start, expected) in enumerate(cases):
        made = PipelineFolder(tmp_path / str(number))
        document(made, topics.source(topic, start=start)).run()
        assert sorted(values(made)) == expected, start


def _millis(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.in_turn
def test_aborted_messages_are_not_read(pipeline, spark, topics, tmp_path):
    """Pass: of transactions only what was committed comes; with `read_uncommitted` all of it."""
    topic = topics.make()
    topics.transaction(topic, ["kept"])
    topics.transaction(topic, ["aborted"], abort=True)
    topics.put(topic, ["plain"])
    for level, expected in (
        ("read_committed", ["kept", "plain"]),
        ("read_uncommitted", ["aborted", "kept", "plain"]),
    ):
        made = PipelineFolder(tmp_path / level)
        document(made, topics.source(topic, isolation=level)).run()
        assert sorted(values(made)) == expected


@pytest.mark.in_turn
def test_partitions_and_topics_that_are_added_are_read_from_their_beginning(
    pipeline, spark, topics
):
    """Pass: a pattern's new topic and a topic's new partition are read whole, though reading began at
    `latest`."""
    base = topics.make()
    source = topics.source(pattern=f"{base}.*", start="latest")
    topics.put(base, ["unread"])
    document(pipeline, source).run()
    assert values(pipeline) == []
    topics.grow(base, 2)
    topics.put(base, ["in a new partition"], partition=1)
    topics.put(topics.make(name=f"{base}-more"), ["in a new topic"])
    pipeline.run()
    assert sorted(values(pipeline)) == ["in a new partition", "in a new topic"]


def test_a_pattern_has_none_of_kafkas_own_topics(topics):
    """Pass: of topics that begin with `__` a pattern has those that people made, as Spark has it."""
    made = topics.make(name=f"__{topics.make()}")
    with suppress(KafkaException):  # the topic of groups' offsets is being made for it
        topics.committed("some-group", made)
    wait_for(lambda: "__consumer_offsets" in topics.admin.list_topics(timeout=10).topics)
    given = KafkaSourceOptions.model_validate(topics.source(pattern=r"__.*")["with"])
    for found in (Brokers(given).partitions(), Brokers(given).partitions_left()):
        assert Partition(made, 0) in found
        assert "__consumer_offsets" not in {partition.topic for partition in found}


@pytest.mark.in_turn
def test_a_bounded_run_reads_what_is_less_than_min_rows(pipeline, spark, topics):
    """Pass: 7 messages in batches of 2 to 3 all come in one bounded run."""
    topic = topics.make()
    topics.put(topic, "abcdefg")
    document(pipeline, topics.source(topic, min_rows=2, max_rows=3)).run()
    assert sorted(values(pipeline)) == list("abcdefg")
    topics.put(topic, "h")
    pipeline.run()
    assert sorted(values(pipeline)) == list("abcdefgh")


@pytest.mark.in_turn
def test_batches_wait_for_their_rows(pipeline, spark, topics):
    """Pass: with `min_rows` of 5 no batch after the first has fewer, until `max_delay` has passed."""
    topic = topics.make()
    topics.put(topic, ["first"])
    document(
        pipeline, topics.source(topic, min_rows=5, max_delay="1 hour"), trigger={"every": "100 ms"}
    )
    with running(pipeline) as run:
        wait_for(lambda: "first" in values(pipeline))
        for n in range(5):
            topics.put(topic, [str(n)])
        wait_for(lambda: len(values(pipeline)) == 6)
        assert run.active
    assert [facts["rows_in"] for facts in run.progress if facts["rows_in"]] == [1, 5]
