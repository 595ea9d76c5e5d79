"""Places in several cursors: of a shard that is gone nothing comes back, and no shard's place gets lost."""

from __future__ import annotations

import pytest
from kinesis_fake import FakeKinesis
from kinesis_logs import MemoryLog, settle
from kinesis_model import (
    check_order,
    idle,
    lost,
    numbers,
    places_of,
    put,
    reach,
    read_all,
    worker_of,
)

pytestmark = pytest.mark.usefixtures("quick")


def test_drained_shards_leave_the_cursor_when_they_are_gone(kinesis):
    """Pass: after the retention the cursor has the open shards alone, and nothing is read twice."""
    put(kinesis, 0)
    kinesis.split("shardId-000000000000")
    put(kinesis, *range(1, 6))
    worker = worker_of(kinesis, discover_every="1 ms")
    read_all(kinesis, worker)
    idle(kinesis, [worker], 30)
    assert set(places_of(worker.log)) == {1, 2}
    assert sorted(numbers(worker.log)) == list(range(6))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 1), (2, 3)])
def test_another_number_of_receivers_goes_on_where_the_others_were(monkeypatch, before, after):
    """Pass: each record once, though the shards have other readers."""
    kinesis = reach(monkeypatch, FakeKinesis(4))
    log = MemoryLog()
    put(kinesis, *range(20))
    workers = [worker_of(kinesis, log, n, receivers=before) for n in range(before)]
    read_all(kinesis, *workers)
    for worker in workers:
        worker.crash()
    put(kinesis, *range(20, 40))
    workers = [worker_of(kinesis, log, n, receivers=after) for n in range(after)]
    read_all(kinesis, *reversed(workers))
    check_order(kinesis, log)


# -- places of shards that are gone -----------------------------------------------------------


def two_receivers(monkeypatch, shards=2, **options):
    """Return a model of some shards, a log, and two workers that have stored 20 records of it."""
    kinesis, log = reach(monkeypatch, FakeKinesis(shards)), MemoryLog()
    put(kinesis, *range(20))
    options = {"receivers": 2, "discover_every": "1 ms", **options}
    workers = [worker_of(kinesis, log, number, **options) for number in (0, 1)]
    read_all(kinesis, *workers)
    return kinesis, log, workers


def test_what_another_receiver_reads_leaves_the_first_cursor(monkeypatch):
    """Pass: the first receiver has all shards of the start until the other has stored its own."""
    kinesis, log = reach(monkeypatch, FakeKinesis(2)), MemoryLog()
    first, second = (worker_of(kinesis, log, number, receivers=2) for number in (0, 1))
    settle([first])
    assert set(places_of(log)) == {0, 1}
    settle([second, first])
    assert (set(places_of(log)), set(places_of(log, 1))) == ({0}, {1})


def test_a_drained_shard_that_is_gone_stays_so_when_receivers_connect_again(monkeypatch):
    """Pass: no receiver has it any more, nothing is told as lost, and all comes once."""
    kinesis, log, workers = two_receivers(monkeypatch)
    kinesis.split("shardId-000000000001")
    put(kinesis, *range(20, 40))
    read_all(kinesis, *workers)
    idle(kinesis, workers, 30)
    assert (set(places_of(log)), set(places_of(log, 1))) == ({0, 2}, {3})
    for worker in workers:
        worker.crash()
    put(kinesis, *range(40, 60))
    read_all(kinesis, *workers)
    check_order(kinesis, log)


def test_a_place_of_a_receiver_that_is_no_more_brings_no_drained_shard_back(monkeypatch):
    """Pass: one receiver after two, a split, and a day: at each new connection nothing is told as lost, for the
    end is kept as long as the older place is there."""
    kinesis, log, workers = two_receivers(monkeypatch)
    for worker in workers:
        worker.crash()
    alone = worker_of(kinesis, log, discover_every="1 ms")
    settle([alone])
    kinesis.split("shardId-000000000001")
    put(kinesis, *range(20, 40))
    read_all(kinesis, alone)
    idle(kinesis, [alone], 30)
    assert places_of(log, 1)[1] != "end"
    for first in (40, 60):
        alone.crash()
        put(kinesis, *range(first, first + 20))
        read_all(kinesis, alone)
    assert places_of(log)[1] == "end"
    check_order(kinesis, log)


def test_a_child_without_records_is_read_a_day_after_its_parent_was_drained(monkeypatch):
    """Pass: after a new connection what comes into it is stored, no loss is told, and all is taken."""
    kinesis, log, workers = two_receivers(monkeypatch, on_loss="report")
    kinesis.split("shardId-000000000001")
    settle(workers)
    idle(kinesis, workers, 30)
    for worker in workers:
        worker.crash()
    settle(workers)
    assert all(worker.receiver.caught_up() for worker in workers)
    put(kinesis, *range(20, 40))
    read_all(kinesis, *workers)
    check_order(kinesis, log)
    assert not lost(log)


def test_the_first_number_of_receivers_comes_back(monkeypatch):
    """Pass: two, one, two: the second one's old cursor, by its number one of today, neither brings back what was
    drained meanwhile nor has records read again."""
    kinesis, log, workers = two_receivers(monkeypatch)
    for worker in workers:
        worker.crash()
    alone = worker_of(kinesis, log, discover_every="1 ms")
    put(kinesis, *range(20, 30))
    read_all(kinesis, alone)
    kinesis.split("shardId-000000000001")
    put(kinesis, *range(30, 40))
    read_all(kinesis, alone)
    idle(kinesis, [alone], 30)
    alone.crash()
    put(kinesis, *range(40, 50))
    settle(workers[:1])
    read_all(kinesis, *workers)
    idle(kinesis, workers, 2)
    assert (set(places_of(log)), set(places_of(log, 1))) == ({0, 2}, {3})
    check_order(kinesis, log)


def test_what_an_old_process_still_reads_is_taken_over(monkeypatch):
    """Pass: three receivers after two, the second of which drains a shard meanwhile that is now the first one's: each
    record once, and a day later nothing is told as lost, by the process of before or another one."""
    kinesis, log, old = two_receivers(monkeypatch, shards=4)
    old[0].crash()
    new = [worker_of(kinesis, log, n, receivers=3, discover_every="1 ms") for n in range(3)]
    settle(new[:1])
    kinesis.split("shardId-000000000003")
    put(kinesis, *range(20, 40))
    settle([*old[1:], *new[:1]])
    assert places_of(log, 1)[3] == places_of(log)[3] == "end"
    old[1].crash()
    settle(new[1:2])
    read_all(kinesis, *reversed(new))
    idle(kinesis, new, 30)
    new[0].crash()
    put(kinesis, *range(40, 60))
    read_all(kinesis, *new)
    check_order(kinesis, log)
    assert not {3} & (set(places_of(log)) | set(places_of(log, 1)))
