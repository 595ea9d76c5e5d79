"""The receiver over a plain model of Kinesis: each record once, parents before children, whatever fails."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from kinesis_fake import FakeKinesis
from kinesis_logs import MemoryLog, Worker, run, settle
from kinesis_model import check_order, numbers, put, reach, read_all, taking, worker_of
from mainstem import PermanentError, TransientError
from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_ingress import loss_of
from pydantic import ValidationError

pytestmark = pytest.mark.usefixtures("quick")


# -- where it begins --------------------------------------------------------------------------


def test_it_begins_with_the_oldest_record(kinesis):
    """Pass: all that was there, and what comes, in order."""
    put(kinesis, *range(5))
    worker = worker_of(kinesis)
    worker.take()
    put(kinesis, 5)
    assert read_all(kinesis, worker) == list(range(6))


def test_latest_is_decided_before_the_first_read_and_kept(kinesis):
    """Pass: nothing of what was there before, all of what came after the first look, though the receiver
    was killed before it had read anything, and the shard was split meanwhile."""
    put(kinesis, 0, 1)
    kinesis.now += 10
    worker = worker_of(kinesis, start="latest")
    worker.take()
    worker.store()
    worker.crash()
    put(kinesis, 2)
    kinesis.split("shardId-000000000000")
    put(kinesis, *range(3, 8))
    run([worker], lambda: len(worker.log.values()) >= 6)
    settle([worker])
    assert sorted(numbers(worker.log)) == list(range(2, 8))


def test_a_time_is_exact_to_the_record(kinesis):
    """Pass: of records half a second apart those from the time on; AWS's client asks for whole seconds."""
    began = kinesis.now
    for number in range(6):
        put(kinesis, number)
        kinesis.now += 0.25
    start = datetime.fromtimestamp(began + 0.5, UTC)
    worker = worker_of(kinesis, start=start.isoformat())
    run([worker], lambda: len(worker.log.values()) >= 4)
    settle([worker])
    assert numbers(worker.log) == [2, 3, 4, 5]


def test_a_time_to_come_is_refused(kinesis):
    """Pass: the run ends, told why."""
    start = datetime.fromtimestamp(kinesis.now + 60, UTC).isoformat()
    with pytest.raises(PermanentError, match="in the future"):
        worker_of(kinesis, start=start).start()


def test_a_time_ahead_of_the_streams_clock_by_less_than_clocks_differ_is_now(kinesis):
    """Pass: it is not refused, here or by the stream, and what comes next is there."""
    start = datetime.fromtimestamp(kinesis.now + 1, UTC).isoformat()
    worker = worker_of(kinesis, start=start)
    worker.start()
    put(kinesis, 1)
    run([worker], lambda: worker.log.values())
    assert numbers(worker.log) == [1]


def test_the_streams_clock_counts_and_not_ours(monkeypatch):
    """Pass: `latest` is what comes after now by the stream's clock, a year from ours."""
    kinesis = reach(monkeypatch, FakeKinesis(now=1_900_000_000.0))
    put(kinesis, 0)
    kinesis.now += 10
    worker = Worker(MemoryLog(), start="latest")
    worker.start()
    put(kinesis, 1)
    run([worker], lambda: worker.log.values())
    assert numbers(worker.log) == [1]


# -- shards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("receivers", [1, 2, 3])
def test_three_generations_of_splits_and_merges(monkeypatch, told, down, receivers):
    """Pass: each record once and each key in order, though shards come and go while it runs or is down,
    and whether or not the end of a shard tells of its children."""
    kinesis = reach(monkeypatch, FakeKinesis(2, tells_children=told))
    log = MemoryLog()
    workers = [worker_of(kinesis, log, n, receivers=receivers) for n in range(receivers)]

    def step(first):
        put(kinesis, *range(first, first + 10))
        if not down:
            settle(workers, 0.01)

    settle(workers, 0.02)
    if down:
        for worker in workers:
            worker.crash()
    step(0)
    kinesis.split("shardId-000000000000")  # 2, 3
    step(10)
    kinesis.merge("shardId-000000000003", "shardId-000000000001")  # 4
    step(20)
    kinesis.merge("shardId-000000000002", "shardId-000000000004")  # 5
    step(30)
    kinesis.split("shardId-000000000005")
    step(40)
    read_all(kinesis, *workers)
    check_order(kinesis, log)


def test_children_of_parents_that_were_closed_at_the_start(monkeypatch):
    """Pass: a new log reads parents and then children."""
    kinesis = reach(monkeypatch, FakeKinesis(2))
    put(kinesis, *range(10))
    kinesis.merge("shardId-000000000000", "shardId-000000000001")
    put(kinesis, *range(10, 20))
    kinesis.split("shardId-000000000002")
    put(kinesis, *range(20, 30))
    worker = worker_of(kinesis)
    read_all(kinesis, worker)
    check_order(kinesis, worker.log)


def test_a_merge_waits_for_both_parents(monkeypatch):
    """Pass: while the second receiver does not run, nothing of the child comes to the first, though its
    own parent is drained; then all comes in order."""
    kinesis = reach(monkeypatch, FakeKinesis(2))
    put(kinesis, *range(10))
    kinesis.merge("shardId-000000000000", "shardId-000000000001")
    put(kinesis, *range(10, 20))
    log = MemoryLog()
    first, second = (worker_of(kinesis, log, n, receivers=2) for n in range(2))
    settle([first], 0.1)
    assert {m.extra[0] for m in log.messages} == {"shardId-000000000000"}
    read_all(kinesis, first, second)
    check_order(kinesis, log)


# -- failures ---------------------------------------------------------------------------------


def test_an_iterator_that_expires_is_replaced_without_loss(kinesis):
    """Pass: what came before, while it was expired, and after, each once; none begins at the newest."""
    worker = worker_of(kinesis)
    for first in range(0, 30, 10):
        put(kinesis, *range(first, first + 10))
        kinesis.expire_iterators()
        read_all(kinesis, worker)
    kinesis.expire_iterators()
    put(kinesis, 30)
    assert read_all(kinesis, worker) == list(range(31))
    assert kinesis.calls["DescribeStreamSummary"] == 1, "the connection was made anew"


@pytest.mark.parametrize(
    "code",
    [
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "InternalFailure",
        "KMSThrottlingException",
    ],
)
def test_failures_that_pass_make_one_shard_wait(kinesis, code):
    """Pass: they are counted, and all records come over the same connection."""
    put(kinesis, *range(3))
    kinesis.fail(code, code, code)
    worker = worker_of(kinesis)
    assert read_all(kinesis, worker) == [0, 1, 2]
    facts = worker.receiver.facts()
    assert facts["throttled"] + facts["failed"] == 3
    assert kinesis.calls["DescribeStreamSummary"] == 1


def test_failures_that_go_on_are_told(kinesis):
    """Pass: the far side counts as away, with AWS's word for it."""
    kinesis.fail(*["InternalFailure"] * 50)
    worker = worker_of(kinesis)
    worker.start()
    with pytest.raises(TransientError, match="InternalFailure"):
        taking(worker)


def test_credentials_that_run_out_are_told_and_waited_for(kinesis):
    """Pass: `TransientError` with what to do; when they are renewed nothing is lost."""
    worker = worker_of(kinesis)
    put(kinesis, 0)
    read_all(kinesis, worker)
    kinesis.fail("ExpiredTokenException")
    put(kinesis, 1)
    with pytest.raises(TransientError, match="it goes on when they are renewed"):
        taking(worker)
    worker.crash(whole=False)
    worker.connect()
    assert read_all(kinesis, worker) == [0, 1]


@pytest.mark.parametrize("code", ["AccessDeniedException", "KMSDisabledException"])
def test_what_no_retry_mends_ends_the_run(kinesis, code):
    """Pass: `PermanentError`, with AWS's word for it."""
    kinesis.fail(code)
    worker = worker_of(kinesis)
    worker.start()
    with pytest.raises(PermanentError, match=code):
        taking(worker)


# -- bounded runs, limits, pauses -------------------------------------------------------------


@pytest.mark.parametrize("busy", [False, True])
def test_it_says_when_all_is_taken_that_was_there(monkeypatch, busy):
    """Pass: not before the last of it is taken, through a split; and though records go on coming."""
    kinesis = reach(monkeypatch, FakeKinesis(now=time.time() - 100))
    put(kinesis, *range(20))
    kinesis.split("shardId-000000000000")
    put(kinesis, *range(20, 40))
    kinesis.now = time.time()
    worker = Worker(MemoryLog(), records_per_read=3)
    worker.start()
    until = time.monotonic() + 20
    while not worker.receiver.caught_up():
        assert time.monotonic() < until
        worker.take(0.01)
        kinesis.now = time.time()
        if busy:
            put(kinesis, *range(1000, 1005))
    assert set(range(40)) <= {int(m.value) for m in worker.taken}


@pytest.mark.in_turn
def test_reads_keep_to_the_limits_of_a_shard(kinesis):
    """Pass: five reads a second while there is more, at most; four when there is nothing new."""
    put(kinesis, *range(100))
    limited = {"reads_per_second": 5, "poll_every": "250 ms", "records_per_read": 10}
    worker = worker_of(kinesis, **limited)
    worker.start()
    began = kinesis.calls["GetRecords"]
    settle([worker], 1.5)
    assert 2 <= kinesis.calls["GetRecords"] - began <= 8  # one at once, then each 200 ms


def test_bytes_keep_to_the_limit_of_a_shard(kinesis):
    """Pass: 1 MB at 4 MB a second takes a quarter of a second before the next read."""
    for number in range(4):
        kinesis.put("key", b"%d" % number + bytes(1_000_000))
    worker = worker_of(kinesis, records_per_read=1, bytes_per_second=4_000_000)
    worker.start()
    settle([worker], 0.6)
    assert 1 <= kinesis.calls["GetRecords"] <= 4


def test_while_paused_nothing_is_read(kinesis):
    """Pass: what was on its way comes, then nothing; all of it after `resume`."""
    worker = worker_of(kinesis)
    settle([worker])
    worker.receiver.pause()
    settle([worker])
    put(kinesis, *range(5))
    settle([worker])
    assert len(numbers(worker.log)) == 0
    worker.receiver.resume()
    assert read_all(kinesis, worker) == list(range(5))


@pytest.mark.parametrize("receivers", [1, 2])
def test_fast_shards_wait_for_slow_ones(monkeypatch, receivers):
    """An hour in which one shard gets ten times the records of the other. Pass: the smaller one is never read
    further ahead than it may be, and waits meanwhile; without the option it is; all records come."""

    def most_ahead(**options):
        kinesis = reach(monkeypatch, FakeKinesis(2))
        small, large = (shard.first for shard in kinesis.open())
        for minute in range(60):
            kinesis.now += 60
            for hashed, count in ((small, 1), (large, 10)):
                for number in range(count):
                    kinesis.put("key", b"%d" % (1000 * minute + number), hashed)
        log, waited = MemoryLog(), 0
        given = {
            "receivers": receivers,
            "records_per_read": 1,
            "reads_per_second": 10_000,
            **options,
        }
        workers = [worker_of(kinesis, log, number, **given) for number in range(receivers)]
        while len(log.values()) < len(kinesis.puts):
            for worker in workers:
                worker.take(0.002)
                worker.store()
                waited += worker.receiver.facts().get("shards_waiting", 0)
        read, most = dict.fromkeys(kinesis.shards, 0), 0
        for message in log.messages:
            read[message.extra[0]] = int(message.value) // 1000
            few, many = read.values()
            most = max(most, few - many)
        return most, waited

    aligned, waited = most_ahead(align="5 minutes")
    assert waited
    assert aligned <= 7  # and the minute by which others are known
    free, never = most_ahead()
    assert free > 20
    assert not never


# -- all of it --------------------------------------------------------------------------------


class Machine(RuleBasedStateMachine):
    """Puts, splits, merges, time, crashes, failures and other numbers of receivers, in any order; then all is held
    against the model."""

    @initialize(
        shards=st.integers(1, 3),
        receivers=st.integers(1, 3),
        told=st.booleans(),
        align=st.sampled_from([None, "3 minutes", "2 hours"]),
    )
    def begin(self, shards, receivers, told, align):
        self.kinesis = FakeKinesis(shards, tells_children=told)
        self.patch = pytest.MonkeyPatch()
        reach(self.patch, self.kinesis)
        self.log = MemoryLog()
        self.count = 0
        self.options = {
            "on_loss": "report",
            "records_per_read": 3,
            "discover_every": "5 ms",
            "align": align,
        }
        self.workers = []
        self.drained = set()
        self.change(receivers)
        # What is gone before anybody looks is not missed by who begins with the oldest record.
        self.workers[0].take()
        self.workers[0].store()

    def teardown(self):
        if not hasattr(self, "workers"):
            return
        try:
            self.end()
        finally:
            for worker in self.workers:
                worker.crash()
            self.patch.undo()

    @rule(count=st.integers(1, 8))
    def put(self, count):
        put(self.kinesis, *range(self.count, self.count + count))
        self.count += count

    @rule(at=st.integers(0, 99))
    def split(self, at):
        shards = self.kinesis.open()
        if len(shards) < 6:
            self.kinesis.split(shards[at % len(shards)].id)

    @rule(at=st.integers(0, 99))
    def merge(self, at):
        shards = sorted(self.kinesis.open(), key=lambda s: s.first)
        if len(shards) > 1:
            at %= len(shards) - 1
            self.kinesis.merge(shards[at].id, shards[at + 1].id)

    @rule(hours=st.sampled_from([0.5, 8, 20]))
    def wait(self, hours):
        self.kinesis.wait(hours * 3600)

    @rule(worker=st.integers(0, 2), times=st.integers(1, 4))
    def take(self, worker, times):
        for _ in range(times):
            self.workers[worker % len(self.workers)].take(0.003)

    @rule(worker=st.integers(0, 2))
    def store(self, worker):
        one = self.workers[worker % len(self.workers)]
        losses = [(m.extra[0], loss) for m in one.taken if (loss := loss_of(m))]
        gone = {shard for shard, loss in losses if "is gone with" in loss["reason"]}
        assert not gone & self.drained, "told as lost, and its end was stored"
        one.store()
        for text in self.log.kept.values():
            places = json.loads(text)["places"]
            self.drained |= {shard for shard, (at, _) in places.items() if at == "end"}

    @rule(worker=st.integers(0, 2))
    def crash(self, worker):
        self.workers[worker % len(self.workers)].crash()

    @rule(receivers=st.integers(1, 3))
    def change(self, receivers):
        for worker in self.workers:
            worker.crash()
        options = self.options | {"receivers": receivers}
        self.workers = [worker_of(self.kinesis, self.log, n, **options) for n in range(receivers)]

    @rule(
        code=st.sampled_from(
            ["ProvisionedThroughputExceededException", "InternalFailure", "ExpiredTokenException"]
        )
    )
    def fail(self, code):
        self.kinesis.fail(code)

    @rule()
    def expire(self):
        self.kinesis.expire_iterators()

    def end(self):
        run(self.workers, lambda: not self.silent() and self.read_up(), 30)
        settle(self.workers, 0.03)
        values = Counter(self.log.values())
        doubled = [value for value, count in values.items() if count > 1]
        assert not doubled, f"doubled: {doubled}"
        assert not self.silent()
        seen = defaultdict(list)
        for message in self.log.messages:
            if message.value is not None:
                seen[message.key].append(int(message.value))
        assert all(found == sorted(found) for found in seen.values()), dict(seen)

    def silent(self):
        """Records that are missing, and no row tells of their shard or of one that it came from."""
        values = set(self.log.values())
        told = {m.extra[0] for m in self.log.messages if loss_of(m)}
        missing = [p for p in self.kinesis.puts if p[2] not in values]
        return [p for p in missing if not told & self.kinesis.line(p[0])]

    def read_up(self):
        """Whether the last record of each shard that is there is stored."""
        values = set(self.log.values())
        shards = self.kinesis.shards.values()
        return all(s.records[-1][3] in values for s in shards if len(s.records) > s.trimmed)


@pytest.mark.in_turn
def test_each_record_once_or_told_of_whatever_happens():
    """Pass: no record twice, none gone without a row that tells, each key in order; in any history."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=12,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [({"align": "2 minutes", "receivers": 2}, "3 minutes")],
)
def test_receivers_know_of_others_by_the_minute(given, told):
    """Pass: a distance that they could not see is refused."""
    with pytest.raises(ValidationError, match=told):
        KinesisSourceOptions.model_validate({"stream": "s", **given})
