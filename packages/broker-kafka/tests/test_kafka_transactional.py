"""The sink `kafka` by `transactional`: each batch once, whatever becomes of runs, writers and ledgers."""

from __future__ import annotations

from collections import Counter

import pytest
from ksink_writing import Place, numbered, values_of
from mainstem import FencedError, PipelineError
from mainstem.sinks import Refused
from mainstem_broker_kafka.sink import transactional
from mainstem_broker_kafka.sink.ledger import entered
from mainstem_broker_kafka.sink.writer import Share
from mainstem_testkit.pipelines import wait_for


@pytest.fixture
def place(kafka, spark):
    return Place(kafka, spark)


@pytest.mark.in_turn
def test_half_a_batch_is_made_up_for_by_the_other_writers_alone(place):
    """Pass: a run ended after one of two writers had committed; readers saw that half; the next run
    adds the other half, nothing twice; the ledger has both writers' entries."""
    rows = numbered(*range(20))
    share = place.share(rows, writer=0)
    list(share.finish())
    half = place.values()
    assert 0 < len(half) < 20
    assert not place.sink().committed(place.batch())
    assert place.write(rows, epoch=2) == {}
    assert place.values() == values_of(*range(20))
    assert place.sink().committed(place.batch())
    state = place.state()
    assert {n: e.next for n, e in state.writers.items()} == {0: 1, 1: 1}
    assert {n: e.epoch for n, e in state.writers.items()} == {0: 1, 1: 2}


@pytest.mark.in_turn
def test_a_zombie_is_fenced_off_in_the_middle_of_its_transaction(place):
    """Pass: a run is replaced while its writer has sent rows and not committed: readers never see those,
    its commit fails with FencedError, and the new run's rows are there once."""
    rows = numbered(*range(20))
    zombie = place.share(rows, writer=0)
    zombie._transaction.flush()
    sent = place.values(committed=False)
    assert 0 < len(sent) < 20
    assert place.values() == []
    place.write(rows, epoch=2)
    with pytest.raises(FencedError, match="another run has taken over"):
        list(zombie.finish())
    assert place.values() == values_of(*range(20))
    with pytest.raises(FencedError, match="has seen run 2 of this checkpoint, and this is run 1"):
        place.write(numbered(20), number=1, epoch=1)
    assert place.values() == values_of(*range(20))


@pytest.mark.in_turn
def test_a_run_that_is_replaced_while_its_tasks_write_says_so(place, monkeypatch):
    """Pass: a task ends with an error of its own; the ledger says that a newer run is why."""
    by_tasks = transactional.write_by_tasks

    def replaced(frame, task):
        monkeypatch.setattr(transactional, "write_by_tasks", by_tasks)
        place.write(numbered(*range(5)), epoch=2)
        raise PipelineError("writer 0 of 2: the transaction was aborted")

    monkeypatch.setattr(transactional, "write_by_tasks", replaced)
    with pytest.raises(FencedError, match="has seen run 2 of this checkpoint, and this is run 1"):
        place.write(numbered(*range(5)), epoch=1)
    assert place.values() == values_of(*range(5))


@pytest.mark.in_turn
def test_another_number_of_writers_is_taken_between_batches(place):
    """Pass: each batch is there once, its rows dealt out by 2, 3 and 1 writers."""
    for number, writers in enumerate((2, 3, 1)):
        rows = numbered(*range(10 * number, 10 * number + 10))
        for epoch in (2 * number + 1, 2 * number + 2):  # and again
            place.write(rows, number=number, epoch=epoch, writers=writers)
    assert place.values() == values_of(*range(30))
    assert place.state().count == 1


@pytest.mark.in_turn
def test_another_number_of_writers_in_the_middle_of_a_batch_is_an_error(place):
    """Pass: half of a batch is in by two writers: three are refused with an error that names the number,
    and write nothing; two end it."""
    rows = numbered(*range(20))
    list(place.share(rows, writer=1).finish())
    half = place.values()
    with pytest.raises(PipelineError, match="being written by 2 writers.*`writers: 2`"):
        place.write(rows, epoch=2, writers=3)
    assert place.values() == half
    place.write(rows, epoch=3)
    assert place.values() == values_of(*range(20))


@pytest.mark.in_turn
def test_a_ledger_that_was_deleted_is_an_error(place, kafka):
    """Pass: Kafka's own tool deletes the group: the next batch is refused with what to do, and not
    written; `missing_ledger: begin` goes on."""
    place.write(numbered(1))
    told = kafka.tool("kafka-consumer-groups", "--delete", "--group", place.group)
    assert "was successful" in told
    with pytest.raises(
        PipelineError, match="the ledger of this checkpoint is gone.*missing_ledger"
    ):
        place.write(numbered(2), number=1, epoch=2)
    assert place.values() == values_of(1)
    place.write(numbered(2), number=1, epoch=3, missing_ledger="begin")
    assert place.values() == values_of(1, 2)


@pytest.mark.in_turn
def test_a_ledger_that_was_forgotten_is_begun_anew_by_a_batch_that_is_new(place, kafka):
    """Pass: the ledger's group goes while a pipeline stands still: the next batch, which no run has
    planned before, is written, by the same run and by the next one, and the ledger is there again; the
    same batch, planned by an earlier run, is an error, also where the ledger is there and ends earlier."""
    sink = place.sink()
    place.write(numbered(1), sink=sink)
    kafka.tool("kafka-consumer-groups", "--delete", "--group", place.group)
    with pytest.raises(PipelineError, match="the ledger of this checkpoint is gone"):
        place.write(numbered(2), number=1, epoch=2)
    place.write(numbered(2), number=1, sink=sink, retried=False)
    assert place.state().done.next == 2
    with pytest.raises(
        PipelineError, match="ends with batch 1, and an earlier run has begun batch 3"
    ):
        place.write(numbered(3), number=3, epoch=2)
    place.write(numbered(3), number=3, epoch=3, retried=False)
    assert place.values() == values_of(1, 2, 3)
    assert place.state().done.next == 4


@pytest.mark.slow
def test_a_transaction_that_takes_too_long_is_told_as_such(place):
    """Pass: the brokers abort a transaction that is older than `transaction_timeout`: the writer's error
    names the option and not another run; the next run writes the batch."""
    rows = numbered(*range(20))
    share = place.share(rows, writer=0, sink=place.sink(transaction_timeout="1 second"))
    share._transaction.flush()
    wait_for(lambda: aborted(place, share), 60)
    with pytest.raises(PipelineError, match="`transaction_timeout` is 1 s. No other run") as told:
        list(share.finish())
    assert not isinstance(told.value, FencedError)
    place.write(rows, epoch=2)
    assert place.values() == values_of(*range(20))


def aborted(place, share):
    """Whether the brokers have ended a writer's transaction, by Kafka's own tool."""
    name = share._job.place.transactional_id(share.writer)
    told = place.server.tool("kafka-transactions", "describe", "--transactional-id", name)
    return "CompleteAbort" in told


@pytest.mark.in_turn
def test_changes_of_a_key_come_in_the_order_of_their_versions(place):
    """Pass: changes of 5 keys are in the batch in any order, with `_commit_version` beside: each key's
    messages are written by it."""
    rows = [
        {"key": b"key %d" % (n % 5), "value": b"%d" % (n * 7 % 100), "timestamp": None}
        for n in range(100)
    ]
    frame = place.frame(rows, parts=3)
    version = frame["value"].cast("string").cast("bigint")
    place.sink().write_once(frame.withColumn("_commit_version", version), place.batch())
    found = {}
    for message in sorted(place.read(), key=lambda m: (m.partition, m.offset)):
        found.setdefault(message.key, []).append(int(message.value))
    assert sum(map(len, found.values())) == 100
    assert all(order == sorted(order) for order in found.values())


@pytest.mark.in_turn
def test_a_topic_that_takes_messages_of_two_gigabytes_is_written_to(kafka, spark):
    """Pass: no limit of the client's is exceeded by a topic's own; a batch goes in."""
    place = Place(kafka, spark, max_message_bytes=2**31 - 1)
    assert place.write(numbered(1, 2)) == {}
    assert place.values() == values_of(1, 2)


@pytest.mark.in_turn
def test_a_sink_that_came_later_begins_its_ledger(place):
    """Pass: the first batch of a sink added to a live checkpoint is 7: no ledger is missed; from 8 on it
    would be."""
    place.write(numbered(1), number=7, begins=7)
    place.write(numbered(2), number=8, begins=7)
    assert place.values() == values_of(1, 2)
    place.query_id = "another"
    with pytest.raises(PipelineError, match="is gone"):
        place.write(numbered(3), number=8, begins=7)


@pytest.mark.in_turn
def test_an_offset_that_somebody_else_set_is_an_error(place, kafka):
    """Pass: Kafka's tool resets the ledger's group: the run ends instead of believing it."""
    place.write(numbered(1))
    kafka.tool(
        "kafka-consumer-groups", "--reset-offsets", "--group", place.group, "--all-topics",
        "--to-earliest", "--execute",
    )  # fmt: skip
    with pytest.raises(PipelineError, match="was set by somebody else"):
        place.write(numbered(2), number=1)
    assert place.values() == values_of(1)


@pytest.mark.in_turn
def test_what_was_refused_is_told_again_after_the_limit_was_raised(kafka, spark):
    """Pass: a row too large is refused; the topic then takes it; the batch comes again: the row is refused
    again, since the batch is in without it, and not lost."""
    place = Place(kafka, spark, max_message_bytes=5000)
    rows = [*numbered(1, 2), {"key": b"large", "value": b"x" * 9000}]
    first = place.write(rows)
    assert list(first) == [b"x" * 9000]
    assert "max.message.bytes is 5000" in first[b"x" * 9000]
    kafka.tool(
        "kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", place.name,
        "--add-config", "max.message.bytes=20000",
    )  # fmt: skip
    assert place.write(rows, epoch=2, parts=1) == first
    assert place.values() == values_of(1, 2)
    assert place.write([rows[-1]], number=1, epoch=2) == {}
    assert len(place.values()) == 3


@pytest.mark.in_turn
def test_an_empty_batch_lets_no_writer_begin_a_transaction(place):
    """Pass: batches without rows are in by the ledger's first entry alone; the topic and the writers'
    entries stay as they are."""
    sink = place.sink()
    place.write(numbered(*range(10)), sink=sink)
    before = place.state()
    place.write([], number=1, sink=sink)
    after = place.state()
    assert after.writers == before.writers
    assert (before.done.next, after.done.next) == (1, 2)
    assert sink.committed(place.batch(1))


@pytest.mark.in_turn
def test_a_key_keeps_its_order(place):
    """Pass: 50 keys with 40 changes each, in a batch of 4 partitions that hold whole keys: read back,
    each key's messages come in their order."""
    rows = [
        {"key": b"key %d" % key, "value": b"%d" % change}
        for part in range(4)
        for change in range(40)
        for key in range(part, 50, 4)
    ]
    frame = place.frame(rows, parts=1)
    parts = frame.repartition(4, "key").sortWithinPartitions(
        "key", frame["value"].cast("string").cast("int")
    )
    place.sink().write_once(parts, place.batch())
    found = {}
    for message in sorted(place.read(), key=lambda m: (m.partition, m.offset)):
        found.setdefault(message.key, []).append(int(message.value))
    assert len(found) == 50
    wrong = {key: order for key, order in found.items() if order != list(range(40))}
    assert not wrong


@pytest.mark.in_turn
def test_a_batch_that_is_in_and_comes_again_with_other_rows_is_an_error(place):
    """Pass: batch 0 is in with rows 1 to 4; a later run brings it with 1 to 8, with 1 to 3, with as many
    others, and with none: each is an error that says what to do, and nothing is written; with the same
    rows otherwise partitioned, and by more writers, there is none.
    """
    place.write(numbered(1, 2, 3, 4))
    others = [range(1, 9), range(1, 4), range(2, 6), ()]
    for epoch, other in enumerate(others, start=2):
        with pytest.raises(PipelineError, match=r"batch 0 is in with 4 rows.*old copy.*--fresh"):
            place.write(numbered(*other), epoch=epoch)
    assert place.values() == values_of(1, 2, 3, 4)
    place.write(numbered(4, 2, 1, 3), epoch=8, parts=4)
    place.write(numbered(3, 4, 2, 1), epoch=9, parts=1, writers=3)
    assert place.values() == values_of(1, 2, 3, 4)
    place.write([], number=1, epoch=9, writers=3)
    with pytest.raises(PipelineError, match="batch 1 is in with 0 rows, and has come again with 1"):
        place.write(numbered(7), number=1, epoch=10, writers=3)
    assert place.values() == values_of(1, 2, 3, 4)


@pytest.mark.in_turn
def test_half_a_batch_that_comes_again_with_other_rows_is_an_error(place):
    """Pass: one of two writers has its share in; the batch comes again without any row of that share: an
    error; with rows added to it: an error; the batch is not told to be in."""
    rows = numbered(*range(20))
    list(place.share(rows, writer=0).finish())
    half = place.values()
    rest = [row for row in rows if row["value"] not in half]
    with pytest.raises(PipelineError, match="batch 0 is in with .* old copy"):
        place.write(rest, epoch=2)
    with pytest.raises(PipelineError, match="batch 0 is in with .* old copy"):
        place.write(numbered(*range(40)), epoch=3)
    assert not place.sink().committed(place.batch(epoch=3))
    assert set(half) <= set(place.values())


@pytest.mark.in_turn
def test_a_run_killed_before_its_commit_holds_up_nobody(place):
    """Pass: a writer has sent its entry of the ledger and is gone, its transaction open for ten minutes
    more; the next run, which gives up after 20 seconds, writes the whole batch; each row once."""
    rows = numbered(*range(20))
    dead = place.share(rows, writer=0)
    transaction = dead._transaction
    transaction.flush()
    entry = place.batch_entry(dead)
    transaction.enter([entry])
    place.write(rows, epoch=2)
    assert place.values() == values_of(*range(20))
    assert place.state().writers.keys() == {0, 1}


@pytest.mark.in_turn
def test_of_two_runs_with_one_epoch_the_later_one_writes(place):
    """Pass: two copies of a checkpoint run at once, both as run 1: the one that came first can neither
    commit what it has sent, nor write its next batch, nor set the ledger back; it fences off nobody."""
    first, second = place.sink(), place.sink()
    place.write(numbered(1), sink=first, run="a")
    open_share = place.share(numbered(*range(10, 30)), writer=0, number=1, run="a", sink=first)
    place.write(numbered(*range(40, 60)), number=1, run="b", sink=second)
    with pytest.raises(FencedError, match="another run"):
        list(open_share.finish())
    with pytest.raises(FencedError, match="two copies of the checkpoint"):
        place.write(numbered(3), number=1, run="a", sink=first)
    with pytest.raises(FencedError, match="two copies of the checkpoint"):
        place.write(numbered(4), number=2, run="a", sink=first)
    place.write(numbered(5), number=2, run="b", sink=second)
    assert place.values() == values_of(1, 5, *range(40, 60))


@pytest.mark.in_turn
def test_a_writer_of_a_run_that_was_replaced_looks_before_it_fences(place):
    """Pass: a task of a former run begins only now: it ends with FencedError, and the writer of the new
    run, which has sent its rows and not committed, commits all the same."""
    rows = numbered(*range(20))
    former = place.share(rows, writer=0)
    job = former._job
    former.give_up()
    live = place.share(rows, writer=0, epoch=2)
    with pytest.raises(FencedError, match="run 2 of the checkpoint has taken over from 1"):
        Share(job, 0, Refused())
    list(live.finish())
    assert set(place.values()) < set(values_of(*range(20)))
    assert place.state().writers[0].epoch == 2


@pytest.mark.in_turn
def test_a_task_that_comes_late_leaves_the_writer_of_the_next_batch_alone(place):
    """Pass: batch 0 is in, and a writer of batch 1 has sent its rows, when another task of batch 0 begins: that
    one finds its share in, and the writer of batch 1 commits."""
    rows, sink = numbered(*range(20)), place.sink()
    first = place.share(rows, writer=0, sink=sink)
    job = first._job
    first.give_up()
    place.write(rows, sink=sink)
    live = place.share(numbered(*range(20, 40)), writer=0, number=1, sink=sink)
    late = Share(job, 0, Refused())
    assert late._then == {}
    late.give_up()
    list(live.finish())
    assert place.state().writers[0].next == 2
    assert set(place.values()) > set(values_of(*range(20)))


@pytest.mark.in_turn
def test_a_driver_that_wakes_late_does_not_set_the_ledger_back(place):
    """Pass: a run has all of batch 0 in and stands still before it says so; another run takes over and
    goes on to batch 1; the first one wakes and says that 0 is in: FencedError, and entry 0 stays."""
    old = place.sink()
    place.write(numbered(1), sink=old)
    (hold,) = old._transactions._holds.values()
    place.write(numbered(1), epoch=2)
    place.write(numbered(2), number=1, epoch=2)
    with pytest.raises(FencedError, match="has seen run 2"):
        hold.done(entered(place.batch(), 2), place.batch())
    state = place.state()
    assert (state.done.next, state.done.epoch, state.run.epoch) == (2, 2, 2)


@pytest.mark.in_turn
def test_two_sinks_and_two_checkpoints_do_not_know_each_other(place):
    """Pass: the same batch from another checkpoint is another batch; Kafka's tool lists a group each."""
    place.write(numbered(1))
    former = place.group
    place.query_id = f"{place.query_id}-anew"
    place.write(numbered(2))
    assert place.values() == values_of(1, 2)
    groups = place.server.tool("kafka-consumer-groups", "--list").split()
    assert Counter(groups)[former] == Counter(groups)[place.group] == 1
