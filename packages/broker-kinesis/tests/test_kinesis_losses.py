"""What the stream drops before it is read: the run's end, or a row that tells of it, and neither if nothing is gone."""

from __future__ import annotations

import pytest
from kinesis_fake import DAY
from kinesis_logs import run, settle
from kinesis_model import lost, numbers, put, read_all, worker_of
from mainstem_ingress import Unmendable

pytestmark = pytest.mark.usefixtures("quick")


def test_records_dropped_before_they_were_read_are_an_error(kinesis):
    """Pass: the run ends, told which shard, since when and what to do; again at each restart."""
    worker = worker_of(kinesis)
    put(kinesis, 0)
    read_all(kinesis, worker)
    worker.crash()
    put(kinesis, 1)
    kinesis.wait(2 * DAY)
    put(kinesis, 2)
    for _ in range(2):
        with pytest.raises(
            Unmendable, match="shardId-000000000000 was read up to .*on_loss: report"
        ):
            settle([worker], 1)
        worker.crash()
    assert numbers(worker.log) == [0]


def test_by_option_dropped_records_are_reported_once(kinesis):
    """Pass: one message that stands for them, stored with the cursor; what is there is read."""
    worker = worker_of(kinesis, on_loss="report")
    put(kinesis, 0)
    read_all(kinesis, worker)
    worker.crash()
    put(kinesis, 1)
    kinesis.wait(2 * DAY)
    put(kinesis, 2)
    run([worker], lambda: 2 in numbers(worker.log))
    worker.crash()
    settle([worker])
    assert numbers(worker.log) == [0, 2]
    (told,) = lost(worker.log)
    assert told["count"] is None
    assert int(told["from"]) + 2 == int(told["to"])


def test_nothing_is_lost_while_what_was_read_is_still_there(kinesis):
    """Pass: down for nearly the retention, or idle for long: no error, and all records."""
    worker = worker_of(kinesis)
    put(kinesis, 0)
    read_all(kinesis, worker)
    for _ in range(50):  # idle
        kinesis.wait(3600)
        settle([worker], 0.005)
    worker.crash()
    kinesis.wait(DAY - 200)
    put(kinesis, 1)
    assert read_all(kinesis, worker) == [0, 1]


def test_records_that_are_kept_longer_than_promised_are_not_lost(kinesis):
    """Pass: the time has passed and the stream has dropped nothing yet: no error, and all records."""
    worker = worker_of(kinesis)
    put(kinesis, 0)
    read_all(kinesis, worker)
    worker.crash()
    kinesis.now += 2 * DAY
    put(kinesis, 1)
    assert read_all(kinesis, worker) == [0, 1]


def test_a_closed_shard_that_is_gone_unread_is_a_loss(kinesis):
    """Pass: reported, and its children are read."""
    worker = worker_of(kinesis, on_loss="report")
    put(kinesis, 0)
    read_all(kinesis, worker)
    worker.crash()
    put(kinesis, 1)
    kinesis.split("shardId-000000000000")
    kinesis.wait(DAY + 100)
    put(kinesis, *range(2, 8))
    run([worker], lambda: len(worker.log.values()) >= 7)
    assert sorted(numbers(worker.log)) == [0, *range(2, 8)]
    assert "shardId-000000000000 is gone" in lost(worker.log)[0]["reason"]


@pytest.mark.parametrize("running", [True, False])
def test_a_stream_that_was_created_again_is_an_error(kinesis, running):
    """Pass: the run ends, told when both were created."""
    worker = worker_of(kinesis, discover_every="1 ms")
    put(kinesis, 0)
    read_all(kinesis, worker)
    if not running:
        worker.crash()
    kinesis.created += 5000
    with pytest.raises(Unmendable, match="deleted and created again: .* UTC, and this one at"):
        settle([worker], 1)


def test_a_log_of_another_stream_is_refused(kinesis):
    """Pass: the run ends, told both names."""
    worker = worker_of(kinesis)
    settle([worker])
    worker.crash()
    other = worker_of(kinesis, worker.log, stream="other")
    with pytest.raises(Unmendable, match="of the stream clicks, and the source reads other"):
        other.start()
