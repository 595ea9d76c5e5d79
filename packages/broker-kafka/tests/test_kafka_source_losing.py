"""Messages that are gone before they were read: an error, or counted."""

from __future__ import annotations

import pytest
from mainstem import PipelineError
from mainstem_broker_kafka.source.losing import ANEW, DELETED, GONE, WENT, Losses
from mainstem_broker_kafka.source.offsets import Partition
from mainstem_testkit.pipelines import wait_for

ONE = Partition("t", 0)
TWO = Partition("t", 1)


def test_what_went_beyond_the_last_batch_is_lost():
    """Pass: a beginning beyond where reading is tells the range between, once."""
    losses = Losses({ONE: 0})
    assert losses.find({ONE: 10}, {ONE: 5}) == [("t", 0, 0, 4, WENT)]
    assert losses.find({ONE: 10}, {ONE: 15}) == [("t", 0, 10, 14, GONE)]
    assert losses.find({ONE: 10}, {ONE: 15}) == []
    assert losses.find({ONE: 20}, {ONE: 15}) == []


def test_what_went_while_a_batch_was_read_is_told_apart():
    """Pass: of what went since the last planning, the part that a batch was planned over is told as perhaps
    read, the rest as lost; what went after it was surely read is not told."""
    losses = Losses({ONE: 0})
    assert losses.find({ONE: 10}, {ONE: 0}) == []
    assert losses.find({ONE: 20}, {ONE: 8}) == []
    assert losses.find({ONE: 30}, {ONE: 35}) == [("t", 0, 20, 29, WENT), ("t", 0, 30, 34, GONE)]


def test_before_the_first_batch_nothing_is_lost():
    """Pass: what a topic lost before its first batch was planned is not told; what it loses since is."""
    losses = Losses({})
    assert losses.find(None, {ONE: 7}) == []
    assert losses.find({ONE: 20}, {ONE: 9}) == [("t", 0, 7, 8, WENT)]


def test_a_partition_that_is_added_late_begins_at_0():
    """Pass: what a new partition has lost before it was known is lost, and one with all of it is fine."""
    losses = Losses({ONE: 0})
    assert losses.find({ONE: 10}, {ONE: 0, TWO: 4}) == [("t", 1, 0, 3, GONE)]
    assert losses.find({ONE: 10, TWO: 8}, {ONE: 0, TWO: 4}) == []


def test_deleted_topics_are_told():
    """Pass: a partition that is gone is told once, without a count; of a topic made anew, what is before the
    old offset is told once, and what it loses beyond that later."""
    losses = Losses({ONE: 0, TWO: 0})
    assert losses.find({ONE: 10, TWO: 10}, {ONE: 0, TWO: 0}) == []
    assert losses.find({ONE: 10, TWO: 10}, {ONE: 0}) == [("t", 1, 10, None, DELETED)]
    assert losses.find({ONE: 10, TWO: 10}, {ONE: 0}) == []
    assert losses.find({ONE: 10}, {ONE: 2}, {"t"}) == [("t", 0, 2, 9, ANEW)]
    assert losses.find({ONE: 10}, {ONE: 2}) == []
    assert losses.find({ONE: 12}, {ONE: 15}) == [("t", 0, 10, 11, WENT), ("t", 0, 12, 14, GONE)]


def document(pipeline, source):
    lost = {}
    if source["with"].get("on_data_loss") == "continue":
        lost = {"lost": pipeline.sink("lost", "messages.lost")}
    return pipeline.document(
        sources={"messages": source},
        operators={
            "plain": {
                "use": "select",
                "from": "messages",
                "with": {"columns": {"n": "CAST(CAST(value AS STRING) AS INT)"}},
            }
        },
        sinks={"out": pipeline.sink("out", "plain"), **lost},
    )


def numbers(pipeline):
    return sorted(row["n"] for row in pipeline.rows("out"))


def test_retention_that_passes_an_offset_ends_the_run(pipeline, spark, topics):
    """Pass: what was not read is removed, and the next run fails and says what to write to go on."""
    topic = topics.make()
    topics.put(topic, range(5))
    document(pipeline, topics.source(topic)).run()
    topics.put(topic, range(5, 20))
    topics.trim(topic, 12)
    with pytest.raises(PipelineError) as failed:
        pipeline.run()
    assert "on_data_loss: continue" in str(failed.value)
    assert numbers(pipeline) == list(range(5))


def test_losses_are_counted_and_the_run_goes_on(pipeline, spark, topics):
    """Pass: with `on_data_loss: continue` the rest is read, and the output `lost` has the range with its
    count, once, over several runs; back to `fail` the checkpoint goes on."""
    topic = topics.make(2)
    topics.put(topic, range(5), partition=0)
    goes_on = topics.source(topic, on_data_loss="continue")
    document(pipeline, goes_on).run()
    assert pipeline.rows("lost") == []
    topics.put(topic, range(5, 20), partition=0)
    topics.put(topic, range(20, 30), partition=1)
    topics.trim(topic, 12)
    pipeline.run()
    topics.put(topic, [30], partition=0)
    pipeline.run()
    assert numbers(pipeline) == [*range(5), *range(12, 31)]
    (lost,) = pipeline.rows("lost")
    assert lost["node"] == "messages"
    assert (lost["from"], lost["to"], lost["count"]) == (f"{topic}/0/5", f"{topic}/0/11", 7)
    assert lost["reason"] == GONE
    topics.put(topic, [31])
    document(pipeline, topics.source(topic)).run()
    assert numbers(pipeline) == [*range(5), *range(12, 32)]


def test_losses_are_counted_after_a_kill(pipeline, topics, quick_java):
    """Pass: a batch is planned and killed; what it was planned over is removed meanwhile: the next run tells
    that range, and goes on."""
    topic = topics.make()
    topics.put(topic, range(5))
    document(pipeline, topics.source(topic, on_data_loss="continue"))
    assert pipeline.command().returncode == 0
    topics.put(topic, range(5, 10))
    ended = pipeline.command(MAINSTEM_FAILPOINT="run.before-batch:1")
    assert ended.returncode != 0
    topics.put(topic, range(10, 20))
    topics.trim(topic, 12)
    ended = pipeline.command()
    assert ended.returncode == 0, ended.stderr
    assert numbers(pipeline) == [*range(5), *range(12, 20)]
    found = [(row["from"], row["to"], row["count"], row["reason"]) for row in pipeline.rows("lost")]
    assert sorted(found) == [
        (f"{topic}/0/10", f"{topic}/0/11", 2, GONE),
        (f"{topic}/0/5", f"{topic}/0/9", 5, WENT),
    ]


def test_a_topic_that_is_made_anew_is_noticed(pipeline, spark, topics):
    """Pass: a topic is deleted and made anew, longer than it was: the next run fails and says so; with
    `on_data_loss: continue` a run goes on at the old offset and tells what it skips, once."""
    topic = topics.make()
    topics.put(topic, range(5))
    goes_on = topics.source(topic, on_data_loss="continue")
    for source in (topics.source(topic), goes_on):
        document(pipeline, source).run()
    topics.remove(topic)
    wait_for(lambda: topic not in topics.admin.list_topics(timeout=10).topics)
    topics.make(name=topic)
    topics.put(topic, range(100, 108))
    with pytest.raises(PipelineError, match="made anew since it was last read"):
        document(pipeline, topics.source(topic)).run()
    for _ in range(2):
        document(pipeline, goes_on).run()
    assert numbers(pipeline) == [*range(5), 105, 106, 107]
    (lost,) = pipeline.rows("lost")
    assert (lost["from"], lost["to"], lost["count"]) == (f"{topic}/0/0", f"{topic}/0/4", 5)
    assert lost["reason"] == ANEW
