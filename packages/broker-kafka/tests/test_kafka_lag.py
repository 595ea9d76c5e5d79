"""How far reading is behind, and reading from elsewhere."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from kafka_reading import document, values
from mainstem import OptionError, Reached
from mainstem.history import History
from mainstem_broker_kafka.source.options import KafkaSourceOptions
from mainstem_broker_kafka.source.source import KafkaSource


def source(topics, *names, **options):
    given = topics.source(*names, **options)["with"]
    return KafkaSource(KafkaSourceOptions.model_validate(given))


@pytest.fixture
def nowhere(tmp_path):
    return Reached(None, tmp_path / "none", tmp_path)


@pytest.mark.in_turn
def test_lag_is_told_by_partition(topics, tmp_path, nowhere):
    """Pass: rows are offsets between what was read and the end, seconds the age of the first of them; a
    partition that is read whole has none."""
    topic = topics.make(2, retention_ms=-1)
    old = int((time.time() - 1000) * 1000)
    topics.put(topic, "abc", 0, timestamp=old)
    topics.put(topic, "de", 1)
    whole = source(topics, topic)
    first, second = whole.lag(nowhere)
    assert (first.partition, first.rows) == (f"{topic}/0", 3)
    assert 990 < first.seconds < 1100
    assert (second.partition, second.rows) == (f"{topic}/1", 2)
    assert 0 < second.seconds < 100
    reached = Reached({topic: {"0": 2, "1": 2}}, tmp_path, tmp_path)
    first, second = whole.lag(reached)
    assert (first.rows, second.rows, second.seconds) == (1, 0, 0.0)
    assert whole.end(tmp_path) == {f"{topic}/0": "3", f"{topic}/1": "2"}


@pytest.mark.in_turn
def test_lag_of_what_has_not_begun_follows_the_start(topics, nowhere, tmp_path):
    """Pass: before the first batch the lag counts from where reading will start: the beginning, the end, a
    time, offsets; or from what Spark has found out."""
    topic = topics.make()
    topics.put(topic, "abc", timestamp=int(time.time() * 1000) - 60_000)
    topics.put(topic, "de")
    since = (datetime.now(UTC) - timedelta(seconds=30)).isoformat()
    for start, rows in (("earliest", 5), ("latest", 0), (since, 2), ({topic: {0: 4}}, 1)):
        (found,) = source(topics, topic, start=start).lag(nowhere)
        assert found.rows == rows, start
    (tmp_path / "0").write_text("\x00v1\n" + json.dumps({topic: {"0": 3}}))
    (found,) = source(topics, topic, start="latest").lag(Reached(None, tmp_path, tmp_path))
    assert found.rows == 2


@pytest.mark.in_turn
def test_open_transactions_are_no_lag(topics, nowhere):
    """Pass: what is behind an open transaction can't be read and is not counted; uncommitted reading counts
    it. What was aborted leaves an age of nothing."""
    topic = topics.make()
    topics.put(topic, "ab")
    topics.transaction(topic, "cd", abort=True)
    with topics.open_transaction(topic, "ef"):
        (committed,) = source(topics, topic).lag(nowhere)
        (uncommitted,) = source(topics, topic, isolation="read_uncommitted").lag(nowhere)
    assert committed.rows == 5  # two messages, two aborted ones and the mark of their transaction
    assert uncommitted.rows == 7
    (aborted,) = source(topics, topic).lag(
        Reached({topic: {"0": 2}}, nowhere.spark_folder, nowhere.home)
    )
    assert aborted.seconds is None


@pytest.mark.in_turn
def test_what_is_gone_is_told(topics, nowhere, tmp_path):
    """Pass: a trimmed partition is told with its offsets; starting before what is there is refused with where
    it begins, by time and by offset; from what is there it is not."""
    topic = topics.make()
    topics.put(topic, "abcde")
    whole = source(topics, topic)
    assert whole.gone(nowhere) == ""
    topics.trim(topic, 2)
    assert whole.gone(nowhere) == f"{topic}/0: offsets 0 to 1"
    assert whole.gone(Reached({topic: {"0": 2}}, tmp_path, tmp_path)) == ""
    assert (
        whole.gone(Reached({topic: {"0": 1}}, tmp_path, tmp_path)) == f"{topic}/0: offsets 1 to 1"
    )
    hour = datetime.now(UTC) - timedelta(hours=1)
    for point, expected in (
        (hour, "begins at .* what came before is gone"),
        ({topic: {"0": 1}}, "has the offsets 2 to 5, and not 1"),
        ({topic: {"3": 0}}, "there is no partition"),
        ("yesterday", "expected `earliest`"),
    ):
        with pytest.raises(OptionError, match=expected):
            whole.starting_at(point)
    for point in ("earliest", datetime.now(UTC), {topic: {"0": 3}}):
        assert isinstance(whole.starting_at(point), KafkaSource)


@pytest.mark.in_turn
def test_what_was_trimmed_before_it_was_read_is_not_missed(pipeline, spark, topics):
    """Pass: a checkpoint that began behind what retention had removed has all that it was read for, until
    that is trimmed too."""
    topic = topics.make()
    topics.put(topic, "abcde")
    topics.trim(topic, 2)
    document(pipeline, topics.source(topic)).run()
    (query,) = pipeline.plan().queries
    home = pipeline.plan().home("messages")
    begun = History(pipeline.plan().query_folder(query.name)).beginning("messages", home)
    assert source(topics, topic).gone(begun) == ""
    topics.trim(topic, 4)
    assert source(topics, topic).gone(begun) == f"{topic}/0: offsets 2 to 3"


@pytest.mark.in_turn
def test_a_replay_reads_from_offsets_beside_the_job(pipeline, spark, topics):
    """Pass: a replay from offsets of the checkpoint gives what comes after them to a shadow sink, moves
    neither the job's group nor what the job reads next."""
    from mainstem.plan.replay import replay_plan
    from mainstem.run.runner import run

    topic = topics.make()
    topics.put(topic, "abcde")
    group = f"{topic}-group"
    document(pipeline, topics.source(topic, group=group)).run()
    document(
        pipeline,
        topics.source(topic, group=group),
        sinks={
            "out": pipeline.sink("out", "plain"),
            "again": pipeline.sink("again", "plain", query="replay"),
        },
    )
    (query,) = [q.name for q in pipeline.plan().queries]
    point = json.dumps({"messages": {topic: {"0": 3}}})
    run(replay_plan(pipeline.plan(), query, point, {"out": "again"}))
    assert sorted(row["value"] for row in pipeline.rows("again")) == ["d", "e"]
    assert topics.committed(group, topic) == 5
    topics.put(topic, "f")
    pipeline.run()
    assert sorted(values(pipeline)) == list("abcdef")


def test_a_message_is_found_again_by_its_place(topics, nowhere):
    """Pass: as its row has it, with what says whether an offset has it; none that is not there; none by key."""
    topic = topics.make(2)
    topics.put(topic, "abc", 0)
    made = source(topics, topic)
    (found,) = made.traces(nowhere, f"{topic}/0/1", "")
    assert dict(found.place) == {"origin": topic, "partition": "0", "position": f"{1:019d}"}
    assert not made.reached(found, {topic: {"0": 1, "1": 9}})
    assert made.reached(found, {topic: {"0": 2, "1": 0}})
    assert list(made.traces(nowhere, f"{topic}/0/3", "")) == []
    assert list(made.traces(nowhere, f"{topic}/7/0", "")) == []
    with pytest.raises(OptionError, match="TOPIC/PARTITION/OFFSET"):
        list(made.traces(nowhere, "", "k"))
