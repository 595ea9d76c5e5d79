"""The receiver over two emulators of Kinesis, and a proxy that fails as AWS does: each record once.

The oracle is the emulator's own list of records, read by its interface and not by our client.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinesis_logs import MemoryLog, run, settle
from kinesis_proxy import THROTTLED, KinesisProxy
from kinesis_streams import Stream
from mainstem import PermanentError, TransientError
from mainstem_broker_kinesis.testing import Kinesalite, KinesisError, KinesisLocal
from mainstem_ingress import loss_of

EMULATORS = ["kinesis_local", "kinesalite"]


@pytest.fixture(params=EMULATORS)
def server(request):
    """Each of the emulators."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def stream(server):
    return Stream(server)


@pytest.fixture
def proxy(server):
    with KinesisProxy(server.port) as proxy:
        yield proxy


def read_all(stream, *workers, seconds=60):
    log = workers[0].log
    run(workers, lambda: len(log.messages) >= stream.count, seconds)
    settle(workers, 0.3)
    stream.check(log)


# -- shards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("receivers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.in_turn
def test_splits_and_merges_of_three_generations(server, down, receivers):
    """Pass: each record once and in order, though shards were split and merged three times, while it ran
    or was down, with children of parents that were closed at the start."""
    stream = Stream(server, 2)
    log = MemoryLog()
    workers = [
        stream.worker(log, n, receivers=receivers, discover_every="300 ms")
        for n in range(receivers)
    ]

    def step():
        stream.put(8)
        if not down:
            settle(workers, 0.2)

    step()
    stream.server.split(stream.name, stream.open()[0])
    step()
    stream.server.merge(stream.name, *stream.open()[1:3])
    step()
    if down:
        read_all(stream, *workers)
        for worker in workers:
            worker.crash()
        stream.put(4)
    stream.server.merge(stream.name, *stream.open())
    step()
    stream.server.split(stream.name, stream.open()[0])
    step()
    read_all(stream, *workers)


# -- failures, by the proxy -------------------------------------------------------------------


FAILURES = [
    ("GetRecords", THROTTLED),
    ("GetRecords", "InternalFailure"),
    ("GetRecords", "ExpiredIteratorException"),
    ("GetShardIterator", THROTTLED),
    ("ListShards", "LimitExceededException"),
    ("*", "ExpiredTokenException"),
]


@pytest.mark.parametrize(("operation", "code"), FAILURES)
@pytest.mark.in_turn
def test_failures_of_calls_lose_and_double_nothing(stream, proxy, operation, code):
    """Pass: with every third call of an operation failing for a while, each record is there once."""
    worker = stream.worker(url=proxy.url, discover_every="200 ms", records_per_read=3)
    stream.put(10)
    settle([worker], 0.3)
    calls = iter(range(10**6))
    proxy.fail(operation, code, times=6, when=lambda _: next(calls) % 3 == 0)
    stream.put(10)
    read_all(stream, worker)
    deadline = time.monotonic() + 60
    while sum(call.code == code for call in proxy.calls) < 2:
        if code == "ExpiredIteratorException" or operation == "GetShardIterator":
            worker.crash()
        stream.put(2)
        read_all(stream, worker)
        assert time.monotonic() < deadline
    proxy.heal()
    stream.put(5)
    read_all(stream, worker)


@pytest.mark.in_turn
def test_an_answer_that_is_lost_is_asked_for_again(stream, proxy):
    """Pass: connections cut after the read: each record once."""
    worker = stream.worker(url=proxy.url)
    stream.put(10)
    proxy.lose_answer("GetRecords", times=2)
    read_all(stream, worker)
    assert sum(call.code == "lost" for call in proxy.calls) == 2


@pytest.mark.in_turn
def test_without_a_network_it_is_told_and_goes_on(stream, proxy):
    """Pass: `TransientError` without secrets while each connection breaks; afterwards all records, once."""
    worker = stream.worker(url=proxy.url)
    stream.put(5)
    read_all(stream, worker)
    stream.put(5)
    proxy.lose_answer("*", times=10**6)
    with pytest.raises(TransientError) as told:
        _take_for(worker, 10)
    assert stream.name in str(told.value)
    assert "a-secret-key" not in str(told.value)
    worker.crash(whole=False)
    with pytest.raises(TransientError):
        worker.connect()
    proxy.heal()
    worker.crash()
    read_all(stream, worker)


def _take_for(worker, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        worker.receiver.take(0.05)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.in_turn
def test_a_stream_that_was_deleted_and_created_again_ends_the_run(server, running):
    """Pass: `PermanentError` with both times, or that it is not there, and never a record of the new one."""
    stream = Stream(server)
    worker = stream.worker(discover_every="200 ms")
    stream.put(3)
    read_all(stream, worker)
    if not running:
        worker.crash()
    time.sleep(1.1)  # kinesalite tells whole seconds
    server.call("DeleteStream", StreamName=stream.name)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            server.create(stream.name, 1)
            break
        except KinesisError:
            time.sleep(0.05)
    server.put(stream.name, "k", b"99")
    with pytest.raises(PermanentError, match="deleted and created again|is not there") as told:
        settle([worker], 10)
    assert stream.name in str(told.value)
    assert b"99" not in worker.log.values()


def test_a_stream_that_is_not_there_ends_the_run(server):
    """Pass: `PermanentError` that names the stream and the endpoint, without secrets."""
    stream = Stream(server)
    with pytest.raises(PermanentError, match="stream nowhere at http.*it is not there") as told:
        stream.worker(stream="nowhere").start()
    assert "a-secret-key" not in str(told.value)


# -- limits -----------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_it_keeps_to_what_a_shard_allows(server, proxy):
    """Pass: within any second 5 reads of a shard, with records waiting and without; and the shards are
    listed by a few calls."""
    stream = Stream(server, 2)
    stream.put(200)
    limits = {"poll_every": "250 ms", "reads_per_second": 5, "bytes_per_second": "2 MiB"}
    worker = stream.worker(url=proxy.url, records_per_read=10, **limits)
    run([worker], lambda: len(worker.log.messages) >= 100, 60)
    # A little less than a second, as calls do not take the same time each to come here.
    loaded = {s: proxy.busiest("GetRecords", s, 0.85) for s in proxy.per_shard("GetRecords")}
    read_all(stream, worker, seconds=90)
    assert loaded
    assert max(loaded.values()) <= 5
    before = proxy.count("GetRecords")
    began = time.monotonic()
    settle([worker], 2.0)
    assert proxy.count("GetRecords") - before <= 2 * (4 * (time.monotonic() - began) + 2)
    assert proxy.count("ListShards") <= 3
    facts = worker.receiver.facts()
    assert facts["calls"]["GetRecords"] == proxy.count("GetRecords")
    assert 0 < facts["reads_per_shard_and_second"] <= 5


# -- clocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kinesalite, pytest.param(KinesisLocal, marks=pytest.mark.slow)])
@pytest.mark.in_turn
def test_iterators_that_expire_by_themselves(kind, tmp_path, monkeypatch):
    """Pass: the emulator's clock runs 100 times as fast, so that each iterator is old after 3 seconds;
    after idle times of 4, each record once."""
    from mainstem_broker_kinesis.source import fetching

    monkeypatch.setattr(fetching, "_FRESH", 10**9)
    server = kind(tmp_path, clock=100)
    server.start()
    try:
        stream = Stream(server)
        with KinesisProxy(server.port) as proxy:
            worker = stream.worker(url=proxy.url)
            for _ in range(2):
                stream.put(10)
                read_all(stream, worker)
                time.sleep(4)
            stream.put(10)
            read_all(stream, worker)
            assert any(call.code == "ExpiredIteratorException" for call in proxy.calls)
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("report", [False, True])
def test_records_that_the_emulator_drops_by_age(tmp_path, report):
    """Pass: a day takes 17 seconds; down for two, the run ends, or by option a row tells and the rest is
    there. (kinesalite; the other emulator drops nothing.)"""
    server = Kinesalite(tmp_path, clock=5000)
    server.start()
    try:
        stream = Stream(server)
        worker = stream.worker(on_loss="report" if report else "fail", discover_every="1 day")
        stream.put(3)
        run([worker], lambda: len(worker.log.messages) >= 3, 60)
        worker.crash()
        stream.put(1)
        time.sleep(40)
        server.put(stream.name, "k", b"100")
        if report:
            run([worker], lambda: b"100" in worker.log.values(), 60)
            assert [loss_of(m) is not None for m in worker.log.messages] == [
                *[False] * 3,
                True,
                False,
            ]
            assert worker.log.values() == [b"0", b"1", b"2", b"100"]
        else:
            with pytest.raises(PermanentError, match="was read up to"):
                settle([worker], 10)
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-30, 30])
def test_a_clock_that_is_off_moves_neither_the_start_nor_the_end(tmp_path, hours):
    """Pass: Kinesis's clock differs from ours by more than a day: `latest` begins where it is told, nothing
    counts as lost, and the end is found."""
    server = KinesisLocal(tmp_path, offset=hours * 3600)
    server.start()
    try:
        stream = Stream(server)
        server.put(stream.name, "k", b"before")
        time.sleep(2.5)
        worker = stream.worker(start="latest")
        settle([worker], 1.0)
        worker.crash()
        server.put(stream.name, "k", b"after")
        run([worker], lambda: worker.log.messages, 60)
        settle([worker], 0.5)
        assert worker.log.values() == [b"after"]
        assert worker.receiver.caught_up()
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["latest", "time"])
@pytest.mark.in_turn
def test_a_later_start(kinesis_local, kind):
    """Pass: what came before is not there, what came after is, through a kill before the first record."""
    stream = Stream(kinesis_local)
    kinesis_local.put(stream.name, "k", b"before")
    time.sleep(2.2)
    start = "latest" if kind == "latest" else datetime.now(UTC).isoformat()
    worker = stream.worker(start=start)
    worker.take()
    worker.store()
    worker.crash()
    kinesis_local.put(stream.name, "k", b"after")
    run([worker], lambda: worker.log.messages, 60)
    settle([worker], 0.3)
    assert worker.log.values() == [b"after"]


# -- any history ------------------------------------------------------------------------------


STEPS = ["put", "put", "read", "split", "merge", "restart", "crash", "throttle", "expire", "fail"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", EMULATORS)
def test_any_history_over_an_emulator(request, name):
    """Pass: whatever is put, split, merged, read, crashed and failed in whatever order, each record is there
    once, in order. (The model's own machine has thousands of them, and retention: test_kinesis_receiver.)"""
    server = request.getfixturevalue(name)

    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.sampled_from(STEPS), min_size=6, max_size=14))
    def holds(steps):
        with KinesisProxy(server.port) as proxy:
            stream = Stream(server, 2)
            worker = stream.worker(url=proxy.url, discover_every="200 ms", records_per_read=3)
            for step in steps:
                shards = stream.open()
                if step == "put":
                    stream.put(7)
                elif step == "read":
                    settle([worker], 0.2)
                elif step == "split" and len(shards) < 5:
                    server.split(stream.name, shards[-1])
                elif step == "merge" and len(shards) > 1:
                    server.merge(stream.name, *shards[:2])
                elif step in ("restart", "crash"):
                    if step == "restart":
                        worker.store()
                    worker.take(0.1)
                    worker.crash()
                elif step == "throttle":
                    proxy.fail("GetRecords", THROTTLED, times=2)
                elif step == "expire":
                    proxy.fail("GetRecords", "ExpiredIteratorException")
                elif step == "fail":
                    proxy.fail("*", "InternalFailure")
            stream.put(3)
            read_all(stream, worker)
            worker.crash()

    holds()
