"""The sink `kafka` by `transactional`: each batch once, whatever becomes of runs, writers and ledgers."""

from __future__ import annotations

from collections import Counter

import pytest
from ksink_writing import Place, numbered, values_of
from mainstem import FencedError, PipelineError


@pytest.fixture
def place(kafka, spark):
    return Place(kafka, spark)


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


def test_another_number_of_writers_is_taken_between_batches(place):
    """Pass: each batch is there once, its rows dealt out by 2, 3 and 1 writers."""
    for number, writers in enumerate((2, 3, 1)):
        rows = numbered(*range(10 * number, 10 * number + 10))
        for epoch in (2 * number + 1, 2 * number + 2):  # and again
            place.write(rows, number=number, epoch=epoch, writers=writers)
    assert place.values() == values_of(*range(30))
    assert place.state().count == 1


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


def test_a_sink_that_came_later_begins_its_ledger(place):
    """Pass: the first batch of a sink added to a live checkpoint is 7: no ledger is missed; from 8 on it
    would be."""
    place.write(numbered(1), number=7, begins=7)
    place.write(numbered(2), number=8, begins=7)
    assert place.values() == values_of(1, 2)
    place.query_id = "another"
    with pytest.raises(PipelineError, match="is gone"):
        place.write(numbered(3), number=8, begins=7)


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


def test_an_empty_batch_begins_no_transaction(place):
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


def test_two_sinks_and_two_checkpoints_do_not_know_each_other(place):
    """Pass: the same batch from another checkpoint is another batch; Kafka's tool lists a group each."""
    place.write(numbered(1))
    former = place.group
    place.query_id = f"{place.query_id}-anew"
    place.write(numbered(2))
    assert place.values() == values_of(1, 2)
    groups = place.server.tool("kafka-consumer-groups", "--list").split()
    assert Counter(groups)[former] == Counter(groups)[place.group] == 1
