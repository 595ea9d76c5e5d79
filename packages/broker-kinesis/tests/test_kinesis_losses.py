"""What the stream drops before it is read: the run's end, or a row that tells of it, and neither if nothing is gone."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

import pytest
from kinesis_fake import DAY, FakeKinesis
from kinesis_logs import MemoryLog, run, settle
from kinesis_model import idle, lost, numbers, put, reach, read_all, worker_of
from mainstem import PermanentError

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
            PermanentError, match="shardId-000000000000 was read up to .*on_loss: report"
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
        settle([worker], 0.02)
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
    with pytest.raises(PermanentError, match="deleted and created again: .* UTC, and this one at"):
        settle([worker], 1)


def test_a_log_of_another_stream_is_refused(kinesis):
    """Pass: the run ends, told both names."""
    worker = worker_of(kinesis)
    settle([worker])
    worker.crash()
    other = worker_of(kinesis, worker.log, stream="other")
    with pytest.raises(PermanentError, match="of the stream clicks, and the source reads other"):
        other.start()


# -- behind by nearly the retention -----------------------------------------------------------


def backlog(kinesis, hours, first=0):
    """Put a record each quarter of an hour, and return how many numbers are used."""
    for number in range(first, first + 4 * hours):
        put(kinesis, number)
        kinesis.wait(900)
    return first + 4 * hours


def begun(kinesis, **options):
    """Return a worker that has stored its first reads alone of a backlog of 23 hours."""
    backlog(kinesis, 23)
    worker = worker_of(kinesis, records_per_read=5, **options)
    worker.start()
    while not worker.taken:
        worker.take(0.01)
    worker.receiver.pause()
    settle([worker])
    return worker


def missing(kinesis, log):
    return {int(data) for _, _, data in kinesis.puts} - set(numbers(log))


@pytest.mark.parametrize("paused", [True, False])
def test_a_backlog_that_runs_out_while_it_is_read_is_told(kinesis, paused):
    """Pass: 23 hours behind of 24, and then six hours paused, or down: the run ends, and nothing is skipped."""
    worker = begun(kinesis)
    if not paused:
        worker.crash()
    backlog(kinesis, 6, 92)
    kinesis.expire_iterators()
    if paused:
        worker.receiver.resume()
    read = numbers(worker.log)
    with pytest.raises(
        PermanentError, match="shardId-000000000000 was read up to .*on_loss: report"
    ):
        settle([worker], 1)
    assert numbers(worker.log) == read


def test_a_backlog_that_keeps_running_out_is_told_each_time(kinesis):
    """Pass: two pauses of six hours, each with a row for what it has cost, whose numbers are those that are
    missing."""
    worker = begun(kinesis, on_loss="report")
    for first in (92, 116):
        backlog(kinesis, 6, first)
        kinesis.expire_iterators()
        before = len(worker.log.values())
        worker.receiver.resume()
        run([worker], lambda before=before: len(worker.log.values()) > before)
        worker.receiver.pause()
        settle([worker])
    worker.receiver.resume()
    run([worker], lambda: 139 in numbers(worker.log))
    told = lost(worker.log)
    assert len(told) == 2
    base = 10**20
    gone = {n - base for row in told for n in range(int(row["from"]) + 1, int(row["to"]))}
    assert gone == missing(kinesis, worker.log) != set()


def test_a_backlog_that_is_read_in_time_loses_nothing(kinesis):
    """Pass: 23 hours behind, half an hour paused: no error, and all records."""
    worker = begun(kinesis)
    kinesis.wait(1800)
    worker.receiver.resume()
    assert read_all(kinesis, worker) == list(range(92))


def test_a_backlog_older_than_promised_is_looked_at_now_and_then(kinesis):
    """Pass: while it is read in 40 reads, the stream is asked once whether the last record is still there."""
    worker = worker_of(kinesis, records_per_read=5)
    put(kinesis, 0)
    read_all(kinesis, worker)
    worker.crash()
    put(kinesis, *range(1, 200))
    kinesis.now += 2 * DAY
    asked = kinesis.calls["GetShardIterator"]
    assert read_all(kinesis, worker) == list(range(200))
    assert kinesis.calls["GetShardIterator"] == asked + 2, "one for the look, one to go on"


@pytest.mark.parametrize("held", ["the request", "the answer"])
def test_a_read_that_is_on_its_way_while_records_run_out_hides_nothing(kinesis, monkeypatch, held):
    """Pass: two days go by before it is answered, or before the answer is taken: the run ends, told, and nothing
    behind what is gone is stored."""
    worker = worker_of(kinesis)
    put(kinesis, 0)
    read_all(kinesis, worker)
    gate, reads, real = threading.Event(), threading.Semaphore(0), kinesis.get_records

    def get_records(**asked):
        reads.release()
        gate.wait(5)
        return real(**asked)

    monkeypatch.setattr(kinesis, "get_records", get_records)
    while not reads.acquire(blocking=False):
        worker.take()
    if held == "the answer":
        gate.set()
        time.sleep(0.1)
    put(kinesis, 1)
    kinesis.wait(2 * DAY)
    put(kinesis, 2)
    gate.set()
    with pytest.raises(PermanentError, match="was read up to"):
        settle([worker], 1)
    assert numbers(worker.log) == [0]


def test_what_a_start_by_time_asks_for_is_missed_when_it_goes_before_it_is_read(kinesis):
    """Pass: decided, killed before the first read, and down until records of after that time are gone."""
    backlog(kinesis, 23)
    start = datetime.fromtimestamp(kinesis.now - 20 * 3600, UTC).isoformat()
    worker = worker_of(kinesis, start=start)
    worker.start()
    worker.store()
    worker.crash()
    kinesis.wait(6 * 3600)
    with pytest.raises(PermanentError, match="was read up to"):
        settle([worker], 1)


def test_a_child_that_waited_too_long_is_told(monkeypatch):
    """Pass: its owner was down for longer than the retention, the parent is drained and gone: a row tells of it, and the
    rest is read."""
    kinesis, log = reach(monkeypatch, FakeKinesis()), MemoryLog()
    options = {"receivers": 2, "on_loss": "report", "discover_every": "1 ms"}
    first, second = (worker_of(kinesis, log, number, **options) for number in (0, 1))
    put(kinesis, 0)
    run([first, second], lambda: len(log.values()) == 1)
    settle([first, second])
    second.crash()
    kinesis.split("shardId-000000000000")
    put(kinesis, *range(1, 11))
    settle([first])
    idle(kinesis, [first], 30)
    put(kinesis, *range(11, 21))
    read_to = len([shard for shard, _, _ in kinesis.puts if not shard.endswith("1")])
    assert len(log.values()) == read_to
    settle([second, first])
    assert [row["reason"].split()[1] for row in lost(log)] == ["shardId-000000000001"]
    assert missing(kinesis, log) == {
        int(data) for shard, _, data in kinesis.puts if shard.endswith("1") and int(data) < 11
    }


def test_children_of_a_shard_that_is_gone_unread_lack_what_it_lacks(kinesis):
    """Pass: with their parent they began before the retention, so what they had then is told as lost too."""
    worker = worker_of(kinesis, on_loss="report")
    put(kinesis, 0)
    read_all(kinesis, worker)
    worker.crash()
    kinesis.split("shardId-000000000000")
    put(kinesis, *range(1, 11))
    kinesis.wait(DAY + 100)
    put(kinesis, *range(11, 21))
    run([worker], lambda: len(worker.log.values()) == 11)
    settle([worker])
    assert {row["reason"].split()[1] for row in lost(worker.log)} == {
        "closed",  # of the parent
        "shardId-000000000001",
        "shardId-000000000002",
    }


@pytest.mark.parametrize("told", [True, False])
def test_a_child_of_an_idle_shard_is_no_loss(monkeypatch, told):
    """Pass: a split after days without a record, and one while nothing runs for 20 hours: no error, all records."""
    kinesis = reach(monkeypatch, FakeKinesis(tells_children=told))
    worker = worker_of(kinesis, discover_every="1 ms")
    put(kinesis, 0)
    read_all(kinesis, worker)
    idle(kinesis, [worker], 50)
    kinesis.split("shardId-000000000000")
    put(kinesis, *range(1, 11))
    read_all(kinesis, worker)
    worker.crash()
    kinesis.wait(DAY - 4 * 3600)
    kinesis.split("shardId-000000000001")
    put(kinesis, *range(11, 21))
    read_all(kinesis, worker)
    assert not missing(kinesis, worker.log)


def test_children_that_are_there_at_the_start_are_no_loss(kinesis):
    """Pass: parents whose backlog takes six hours to read, children that began three hours ago: all records."""
    backlog(kinesis, 10)
    kinesis.split("shardId-000000000000")
    backlog(kinesis, 3, 40)
    worker = worker_of(kinesis, records_per_read=5)
    worker.start()
    worker.receiver.pause()
    kinesis.wait(6 * 3600)
    worker.receiver.resume()
    read_all(kinesis, worker)
    assert not missing(kinesis, worker.log)
