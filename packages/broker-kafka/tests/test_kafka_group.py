"""Progress in a consumer group: what Kafka's own tool reads there."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from kafka_reading import document, running, values
from mainstem import PipelineError
from mainstem_broker_kafka.source.groups import Group, least
from mainstem_broker_kafka.source.options import KafkaSourceOptions
from mainstem_testkit.pipelines import wait_for


def told(kafka, group):
    """Return what Kafka's own tool says of a group: (end, lag) by topic/partition and committed offset."""
    text = kafka.tool("kafka-consumer-groups", "--describe", "--group", group)
    rows = [line.split() for line in text.splitlines() if line.startswith(group)]
    return {f"{row[1]}/{row[2]}": tuple(map(int, row[3:6])) for row in rows}


def group(topics, topic, name):
    given = topics.source(topic, group=name, answer_timeout="5 s")["with"]
    return Group(KafkaSourceOptions.model_validate(given))


@pytest.mark.in_turn
def test_kafkas_own_tool_reads_the_progress(pipeline, spark, topics, kafka):
    """Pass: after a run the tool shows offset, end and lag by partition; after more messages the lag is
    theirs, and the next run takes it away."""
    topic = topics.make(2)
    name = f"{topic}-group"
    topics.put(topic, "abc", 0)
    topics.put(topic, "de", 1)
    document(pipeline, topics.source(topic, group=name)).run()
    assert told(kafka, name) == {f"{topic}/0": (3, 3, 0), f"{topic}/1": (2, 2, 0)}
    topics.put(topic, "fg", 0)
    assert told(kafka, name)[f"{topic}/0"] == (3, 5, 2)
    pipeline.run()
    assert told(kafka, name)[f"{topic}/0"] == (5, 5, 0)


@pytest.mark.in_turn
def test_progress_is_published_while_it_runs(pipeline, spark, topics):
    """Pass: the group follows the batches of a run that goes on."""
    topic = topics.make()
    name = f"{topic}-group"
    topics.put(topic, "ab")
    document(pipeline, topics.source(topic, group=name), trigger={"every": "100 ms"})
    with running(pipeline):
        wait_for(lambda: topics.committed(name, topic) == 2)
        topics.put(topic, "c")
        wait_for(lambda: topics.committed(name, topic) == 3)


@pytest.mark.in_turn
def test_the_group_is_never_ahead_of_what_is_written(pipeline, topics, quick_java):
    """Pass: killed after a batch was written and before its commit, the group is where it was; killed before
    publishing, the next run publishes, also with nothing new to read."""
    topic = topics.make()
    name = f"{topic}-group"
    topics.put(topic, "ab")
    document(pipeline, topics.source(topic, group=name))
    for point in ("run.after-batch:1", "kafka.before-publish:1"):
        assert pipeline.command(MAINSTEM_FAILPOINT=point).returncode != 0
        assert topics.committed(name, topic) is None
    assert pipeline.command().returncode == 0
    assert sorted(values(pipeline)) == ["a", "b"]
    assert topics.committed(name, topic) == 2


def test_the_least_of_all_reads_counts():
    """Pass: of each partition that all reads know the least offset; nothing while one has read nothing."""
    assert least([]) == {}
    assert least([{"t": {"0": 3}}, None]) == {}
    found = least([{"t": {"0": 3, "1": 9}}, {"t": {"0": 5}}, {"t": {"0": 4, "1": 1}}])
    assert found == {("t", 0): 3}


@pytest.mark.in_turn
def test_somebody_who_consumes_in_the_group_is_told(topics, kafka):
    """Pass: publishing into a group with a member fails with what to do, and works when it is gone."""
    topic = topics.make()
    name = f"{topic}-group"
    topics.put(topic, "abc")
    ours = group(topics, topic, name)
    other = Consumer(
        {"bootstrap.servers": kafka.url, "group.id": name, "enable.auto.commit": False}
    )
    try:
        other.subscribe([topic])
        wait_for(lambda: other.poll(0.2) or other.assignment())
        with pytest.raises(PipelineError, match="somebody consumes in it.*name another `group`"):
            ours.publish([{topic: {"0": 2}}])
    finally:
        other.close()
    wait_for(lambda: _published(ours, topic))
    assert topics.committed(name, topic) == 2
    ours.close()


def _published(ours, topic):
    try:
        ours.publish([{topic: {"0": 2}}])
    except PipelineError:
        return False
    return True


@pytest.mark.slow
def test_a_broker_that_goes_is_told_and_published_to_when_it_is_back(topics, kafka):
    """Pass: publishing while the broker is down fails with an error, and the same offsets are published when
    it is back."""
    topic = topics.make()
    name = f"{topic}-group"
    topics.put(topic, "abc")
    ours = group(topics, topic, name)
    ours.publish([{topic: {"0": 1}}])
    kafka.kill()
    try:
        with pytest.raises(PipelineError, match="publishing offsets to the group"):
            ours.publish([{topic: {"0": 3}}])
    finally:
        kafka.start()
    wait_for(lambda: _published_to(ours, topic, 3))
    assert topics.committed(name, topic) == 3
    ours.close()


def _published_to(ours, topic, offset):
    try:
        ours.publish([{topic: {"0": offset}}])
    except PipelineError:
        return False
    return True
