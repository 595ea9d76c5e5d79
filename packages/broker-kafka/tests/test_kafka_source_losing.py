"""Messages that are gone before they were read: an error, or counted."""

from __future__ import annotations

import pytest
from mainstem import OptionError, PipelineError
from mainstem_broker_kafka.source.data_loss import (
    ANEW,
    DELETED,
    GONE,
    WENT,
    Losses,
    LossPlanner,
    LossReading,
)
from mainstem_broker_kafka.source.offsets import Partition
from mainstem_broker_kafka.source.options import KafkaSourceOptions
from mainstem_broker_kafka.source.topics import Notes
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


class Checkpoint:
    """What a checkpoint says of a read, as a test has it: batches are planned, and done at once."""

    def __init__(self):
        self._last = None

    def plan(self, offset):
        self._last = (0 if self._last is None else self._last[0] + 1, offset)

    def planned(self):
        return self._last

    def committed(self):
        return self._last


class Looking:
    """A read of one topic with `on_loss: report`: makes the planner of each of its runs."""

    def __init__(self, folder, **options):
        self.checkpoint = Checkpoint()
        folder.mkdir(exist_ok=True)
        self.notes = Notes(folder / "notes.json")
        self._options = KafkaSourceOptions.model_validate({"on_loss": "report", **options})

    def run(self, *, bounded=False, **more):
        done = self.checkpoint.committed()
        read = None if done is None else done[1]
        reading = LossReading(self._options, self.checkpoint, read, self.notes, bounded)
        return LossPlanner(reading, **more)


def looking(tmp_path, topics, topic):
    return Looking(tmp_path, **topics.source(topic)["with"])


@pytest.mark.in_turn
def test_brokers_that_do_not_tell_what_is_lost_end_the_run_at_last(tmp_path):
    """Pass: a run goes on while brokers do not answer, and fails with what was tried when that lasts too long,
    at once if it is bounded; a wrong setting fails at once."""
    read = Looking(tmp_path, servers="127.0.0.1:1", topics=["t"], answer_timeout="1 s")
    start = {"number": 0, "told": {}, "ranges": [], "ids": {}}
    assert read.run(patience=3600).latest(start) is start
    for run in (read.run(patience=0), read.run(bounded=True)):
        with pytest.raises(PipelineError, match=r"messages were lost .*127\.0\.0\.1:1"):
            run.latest(start)
    with pytest.raises(PipelineError, match=r"127\.0\.0\.1:1"):
        read.run().initial()
    given = {"servers": "127.0.0.1:1", "topics": ["t"], "librdkafka": {"socket.timeout.ms": "x"}}
    with pytest.raises(OptionError, match="does not take a setting"):
        Looking(tmp_path, **given).run().latest(start)


@pytest.mark.in_turn
def test_what_a_run_did_not_look_at_the_next_one_does(tmp_path, topics):
    """Pass: a run ends after a batch and before it looked what went meanwhile: the next one tells that; what
    goes after a look was surely read and is not told."""
    topic = topics.make()
    topics.put(topic, range(20))
    read = looking(tmp_path, topics, topic)
    first = read.run()
    start = first.initial()
    for end in (None, 5):
        if end is not None:
            read.checkpoint.plan({topic: {"0": end}})
        assert first.latest(start) is start
    topics.trim(topic, 3)
    second = read.run()
    assert second.latest(start) is start
    read.checkpoint.plan({topic: {"0": 10}})
    topics.trim(topic, 8)
    told = read.run().latest(start)
    assert told["ranges"] == [[topic, 0, 5, 7, WENT]]
    third = read.run()
    assert third.latest(told) is told
    assert read.run().latest(told) is told


def test_a_topic_is_another_one_when_its_losses_are_told(tmp_path, topics):
    """Pass: the id of a topic that was made anew is noted when what it lost is told, and not before; one of
    which nothing had been read is read as it is, and nothing of it is told."""
    topic, unread = topics.make(), topics.make()
    topics.put(topic, range(5))
    read = looking(tmp_path, topics, topic)
    empty = looking(tmp_path / "unread", topics, unread)
    starts = [each.run().initial() for each in (read, empty)]
    read.checkpoint.plan({topic: {"0": 5}})
    empty.checkpoint.plan({unread: {"0": 0}})
    for name in (topic, unread):
        topics.remove(name)
        wait_for(lambda name=name: name not in topics.admin.list_topics(timeout=10).topics)
        topics.make(name=name)
        topics.put(name, range(8))
    before = read.notes.ids()
    run = read.run()
    told = run.latest(starts[0])
    assert told["ranges"] == [[topic, 0, 0, 4, ANEW]]
    assert read.notes.ids() == before
    assert read.run().latest(told) is told
    assert read.notes.ids() == told["ids"] != before
    run = empty.run()
    told = run.latest(starts[1])
    assert (told["number"], told["ranges"]) == (1, [])
    empty.checkpoint.plan({unread: {"0": 8}})
    assert run.latest(told) is told


def test_going_on_needs_somebody_who_tells():
    """Pass: `continue` is refused where only Spark's client can log in; with `fail` the plan says what nobody
    notices then."""
    from mainstem_broker_kafka.source.source import KafkaSource

    given = {"servers": "kafka.test:1", "topics": ["t"], "kafka": {"sasl.mechanism": "AWS_MSK_IAM"}}
    with pytest.raises(ValueError, match="needs the second client.*under `librdkafka`"):
        KafkaSourceOptions.model_validate({**given, "on_loss": "report"})
    both = {**given, "librdkafka": {"sasl.mechanism": "PLAIN"}}
    assert KafkaSourceOptions.model_validate({**both, "on_loss": "report"}).known_to_both
    for options, expected in ((given, 1), (both, 0)):
        source = KafkaSource(KafkaSourceOptions.model_validate(options))
        assert sum("between two runs" in a for a in source.capabilities.assumptions) == expected


def document(pipeline, source):
    lost = {}
    if source["with"].get("on_loss") == "report":
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


@pytest.mark.in_turn
def test_retention_that_passes_an_offset_ends_the_run(pipeline, spark, topics):
    """Pass: what was not read is removed, and the next run fails and says what to write to go on."""
    topic = topics.make()
    topics.put(topic, range(5))
    document(pipeline, topics.source(topic)).run()
    topics.put(topic, range(5, 20))
    topics.trim(topic, 12)
    with pytest.raises(PipelineError) as failed:
        pipeline.run()
    assert "on_loss: report" in str(failed.value)
    assert numbers(pipeline) == list(range(5))


@pytest.mark.in_turn
def test_losses_are_counted_and_the_run_goes_on(pipeline, spark, topics):
    """Pass: with `on_loss: report` the rest is read, and the output `lost` has the range with its
    count, once, over several runs; back to `fail` the checkpoint goes on."""
    topic = topics.make(2)
    topics.put(topic, range(5), partition=0)
    goes_on = topics.source(topic, on_loss="report")
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


@pytest.mark.slow
def test_losses_are_counted_after_a_kill(pipeline, topics, quick_java):
    """Pass: a batch is planned and killed; what it was planned over is removed meanwhile: the next run tells
    that range, and goes on."""
    topic = topics.make()
    topics.put(topic, range(5))
    document(pipeline, topics.source(topic, on_loss="report"))
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


@pytest.mark.in_turn
def test_a_topic_that_is_made_anew_is_noticed(pipeline, spark, topics):
    """Pass: a topic is deleted and made anew, longer than it was: the next run fails and says so; with
    `on_loss: report` a run goes on at the old offset and tells what it skips, once; after that, back
    to `fail`, the checkpoint goes on."""
    topic = topics.make()
    topics.put(topic, range(5))
    goes_on = topics.source(topic, on_loss="report")
    document(pipeline, topics.source(topic)).run()
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
    topics.put(topic, [108])
    document(pipeline, topics.source(topic)).run()
    assert numbers(pipeline) == [*range(5), 105, 106, 107, 108]
