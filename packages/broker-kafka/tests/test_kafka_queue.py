"""Share groups: what a message says, transactions, locks that run out, limits, topics that are made anew."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from kafka_topics import Topics
from mainstem import PermanentError, TransientError
from mainstem_broker_kafka.queue.options import KafkaQueueOptions
from mainstem_broker_kafka.queue.receiver import KafkaQueueReceiver
from mainstem_broker_kafka.queue.source import KafkaQueueSource
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.pipelines import wait_for
from pydantic import ValidationError


def options(servers, topic, **more):
    given = {"servers": servers, "topics": topic, "group": f"of-{topic}", **more}
    return KafkaQueueOptions.model_validate(given)


@contextmanager
def receiver(servers, topic, number=0, **more):
    made = KafkaQueueReceiver(options(servers, topic, **more), number, "jobs")
    made.connect(None)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def topic(topics):
    return topics.make()


def values(messages):
    return [message.value for message in messages]


def joined(made):
    """Wait until the group gives partitions."""
    wait_for(lambda: list(made.take(0.1)) or made._idle is not None, 20)


# -- messages -----------------------------------------------------------------------------------


def test_what_a_message_says(kafka, topics):
    """Pass: key, value, headers with and without values, times, partition, offset and how often it was
    given; null values; a time beyond all years is a header."""
    topic = topics.make(2, message_timestamp_after_max_ms=2**63 - 1, retention_ms=-1)
    headers = [("a", b"1"), ("none", None), ("a", b"2")]
    topics.put(topic, ["v"], partition=1, key="k", headers=headers, timestamp=1_700_000_000_123)
    topics.put(topic, [None], partition=1, key="k", timestamp=2**60)
    with receiver(kafka.url, topic) as made:
        found = taken(made, 1)
        made.acknowledge(found)
        found += taken(made, 2 - len(found)) if len(found) < 2 else []
        first, second = found
    assert first[:5] == (b"v", b"k", headers, 1_700_000_000_123_000, topic)
    assert first.extra == (1, 0, 1)
    assert (second.value, second.timestamp) == (None, None)
    assert second.headers == [("mainstem-timestamp", b"%d" % 2**60)]
    assert first.id != second.id
    assert first.refused is second.refused is None


@pytest.mark.in_turn
def test_transactions_count_when_they_are_committed(kafka, topics, topic):
    """Pass: what was aborted is not read, by default; with read_uncommitted it is. The group's settings are
    the document's, also when others had been there before. What a bounded run waits for has come then."""
    for isolation, expected in (
        ("read_uncommitted", [b"aborted", b"committed"]),
        ("read_committed", [b"committed"]),
    ):
        topics.transaction(topic, ["aborted"], abort=True)
        topics.transaction(topic, ["committed"])
        with receiver(kafka.url, topic, isolation=isolation) as made:
            found = []
            while not made.caught_up():
                came = list(made.take(0.1))
                if came:
                    made.acknowledge(came)
                found += came
            assert values(found) == expected


@pytest.mark.in_turn
def test_a_group_begins_where_it_is_told(kafka, topics, topic):
    """Pass: with `latest` only what comes after the group has begun."""
    topics.put(topic, ["before"])
    with receiver(kafka.url, topic, start="latest") as made:
        joined(made)
        assert taken(made, 1, 1.0) == []
        topics.put(topic, ["after"])
        assert values(taken(made, 1)) == [b"after"]


# -- what comes again ---------------------------------------------------------------------------


@pytest.mark.in_turn
def test_what_others_had_for_too_long_is_known(kafka, topics, topic):
    """Pass: one takes messages and stands still until their locks have run out: another gets them, as the
    second time, with the same ids."""
    topics.put(topic, ["a"])
    group = f"of-{topic}"
    with receiver(kafka.url, topic) as slow:
        kafka.tool(
            *("kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", group),
            *("--add-config", "share.record.lock.duration.ms=1000"),
        )
        (first,) = taken(slow, 1)
        with receiver(kafka.url, topic, number=1) as quick:
            (again,) = taken(quick, 1, 15.0)
            quick.acknowledge([again])
        assert (first.id, first.extra[2]) == (again.id, 1)
        assert again.extra[2] == 2
        slow.acknowledge([first])  # too late: brokers refuse it, and nothing comes of that
        topics.put(topic, ["b"])
        assert values(taken(slow, 1)) == [b"b"]


@pytest.mark.in_turn
def test_brokers_drop_what_was_given_too_often(kafka, topics, topic):
    """Pass: what is claimed to be assumed: given as often as `deliveries` says and never stored, a message
    is gone."""
    topics.put(topic, ["a"])
    for count in (1, 2):
        with receiver(kafka.url, topic, deliveries=2) as made:
            (found,) = taken(made, 1)
            assert found.extra[2] == count
    topics.put(topic, ["b"])
    with receiver(kafka.url, topic, deliveries=2) as made:
        assert values(taken(made, 1)) == [b"b"]
    told = KafkaQueueSource(options("there:9092", topic, deliveries=2)).capabilities
    assert any("`share.delivery.count.limit` times (2)" in each for each in told.assumptions)


@pytest.mark.in_turn
def test_a_topic_that_is_made_anew_is_another_one(kafka, topics):
    """Pass: its messages have the places of those that were there before, and other ids; the receiver stays
    connected."""
    topic = topics.make(retention_ms=-1)
    topics.put(topic, ["a", "b"], timestamp=1_700_000_000_000)
    with receiver(kafka.url, topic) as made:
        first = taken(made, 1)
        made.acknowledge(first)
        topics.remove(topic)
        topics.make(name=topic, retention_ms=-1)
        topics.put(topic, ["a", "b"], timestamp=1_700_000_000_000)
        again = taken(made, 1, 20.0)
        assert [m[:6] for m in first] != [m[:6] for m in again]
        assert not {m.id for m in first} & {m.id for m in again}
        assert first[0].extra == again[0].extra == (0, 0, 1)


def test_nothing_more_comes_before_what_is_at_hand_is_acknowledged(kafka, topics, topic):
    """Pass: the group of the loop is told to be stored at once; after that the next comes."""
    topics.put(topic, ["a"])
    with receiver(kafka.url, topic) as made:
        assert not made.held()
        found = taken(made, 1)
        topics.put(topic, ["b"])
        assert made.held()
        assert taken(made, 1, 0.5) == []
        assert made.caught_up() is False
        made.acknowledge(found)
        assert not made.held()
        assert values(taken(made, 1)) == [b"b"]


# -- what goes wrong ----------------------------------------------------------------------------


@pytest.mark.in_turn
def test_a_long_pause_ends_with_a_new_connection(kafka, topics, topic):
    """Pass: paused for longer than a group lets its members be silent, it is told, and connects anew."""
    topics.put(topic, ["a"])
    given = {"max.poll.interval.ms": 1500}
    with receiver(kafka.url, topic, librdkafka=given) as made:
        made.acknowledge(taken(made, 1))
        made.pause()
        for _ in range(25):
            assert made.take(0.1) == []
        made.resume()
        with pytest.raises(TransientError, match="poll interval"):
            taken(made, 1)
        made.close()
        topics.put(topic, ["b"])
        made.connect(None)
        assert values(taken(made, 1)) == [b"b"]


def test_a_name_that_a_consumer_group_has_is_refused(kafka, topics, topic):
    """Pass: it ends with what is wrong."""
    other = Consumer({"bootstrap.servers": kafka.url, "group.id": f"of-{topic}"})
    try:
        other.subscribe([topic])
        wait_for(lambda: other.poll(0.1) or other.assignment(), 20)
        with (
            receiver(kafka.url, topic) as made,
            pytest.raises(PermanentError, match="consumer gro"),
        ):
            taken(made, 1)
    finally:
        other.close()


def test_brokers_that_are_away_are_told(kafka):
    """Pass: nobody answers: what is raised says where, and that a retry may help."""
    made = KafkaQueueReceiver(options("127.0.0.1:9", "t", answer_timeout="1 s"), 0, "jobs")
    with pytest.raises(TransientError, match=r"127\.0\.0\.1:9"):
        made.connect(None)
    made.close()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"topics": []}, "expected at least one topic"),
        ({"topics": ["a b"]}, "no name of a topic"),
        ({"deliveries": 1}, "greater than or equal to 2"),
        ({"kafka": {"group.id": "g"}}, "write `group`"),
        ({"librdkafka": {"max.poll.records": 1}}, "write `prefetch`"),
        ({"kafka": {"sasl.jaas.config": "x"}}, "under `librdkafka`"),
    ],
)
def test_wrong_options_are_refused(given, told):
    """Pass: each with what to write."""
    with pytest.raises(ValidationError, match=told):
        KafkaQueueOptions.model_validate(
            {"servers": "there:9092", "topics": ["t"], "group": "g", **given}
        )


def test_settings_that_share_groups_have_not_are_told(kafka, topic):
    """Pass: what the library does not take ends it, with its words."""
    with (
        pytest.raises(PermanentError, match=r"session\.timeout\.ms"),
        receiver(kafka.url, topic, librdkafka={"session.timeout.ms": 6000}),
    ):
        pass


# -- lines that are slow, and brokers that stand still --------------------------------------------


@pytest.mark.in_turn
def test_what_comes_slowly_comes_once(behind):
    """Pass: an answer that takes longer than most do is waited for: the messages are given once."""
    topics = Topics(behind.node)
    topic = topics.make()
    topics.put(topic, [b"x" * 900_000 for _ in range(8)])
    behind.proxy.throttle(800_000)
    found = []
    try:
        with receiver(behind.url, topic) as made:
            while len(found) < 8:
                came = taken(made, 1, 40.0)
                assert came, f"{len(found)} came"
                made.acknowledge(came)
                found += came
    finally:
        behind.proxy.heal()
    assert [each.extra[2] for each in found] == [1] * 8


@pytest.mark.in_turn
def test_a_bounded_run_waits_for_brokers_that_say_nothing(behind):
    """Pass: while brokers stand still, that nothing comes does not mean that all is here; then it does."""
    topics = Topics(behind.node)
    topic = topics.make()
    topics.transaction(topic, ["a"])  # its mark is an offset that no message has
    with receiver(behind.url, topic) as made:
        made.acknowledge(taken(made, 1))
        behind.node.pause()
        try:
            until = time.monotonic() + 5
            while time.monotonic() < until:
                assert list(made.take(0.1)) == []
                assert not made.caught_up()
        finally:
            behind.node.resume()
        wait_for(lambda: list(made.take(0.1)) or made.caught_up(), 30)
