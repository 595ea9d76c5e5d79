"""A replica is promoted by its sentinel, over real servers: what a service's name stands for then."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
import redis
from mainstem import TransientError
from mainstem_cache_redis.connection import Commands, connect
from mainstem_cache_redis.options import RedisOptions, RedisSourceOptions
from mainstem_cache_redis.receiver import RedisReceiver
from mainstem_cache_redis.testing import Redis, Sentinel
from mainstem_testkit.pipelines import wait_for


@pytest.fixture
def service(tmp_path, redis):  # skips without the server
    """A master with a replica, and a sentinel that watches them."""
    made = []

    def begin(server):
        made.append(server)
        server.start()
        return server

    master = begin(Redis(tmp_path / "master", "requirepass pw\nmasterauth pw"))
    settings = f"replicaof 127.0.0.1 {master.port}\nrequirepass pw\nmasterauth pw"
    replica = begin(Redis(tmp_path / "replica", settings))
    sentinel = begin(Sentinel(tmp_path / "sentinel", master.port, "pw"))
    with client(sentinel, None) as asked:
        wait_for(lambda: asked.sentinel_masters()["orders"]["num-slaves"] == 1)
    yield master, replica, sentinel
    for each in reversed(made):
        each.stop()


def client(server, password="pw"):
    return redis.Redis("127.0.0.1", server.port, password=password)


def _pending(reads):
    try:
        return reads.xpending("s", "g")["pending"]
    except redis.ResponseError:  # not there yet
        return None


def _taken(made, times):
    for _ in range(times):
        yield from made.take(0.2)


def given(sentinel, **more):
    return {"url": "redis://:pw@orders", "sentinels": [f"127.0.0.1:{sentinel.port}"], **more}


@pytest.mark.in_turn
def test_after_a_failover_the_source_goes_on_with_the_new_master(service):
    """Pass: what was acknowledged before does not come again, and what comes after does, once."""
    master, replica, sentinel = service
    with client(master) as writes:
        for number in range(4):
            writes.xadd("s", {"n": str(number)})
    made = RedisReceiver(
        RedisSourceOptions.model_validate(
            given(sentinel, streams=["s"], group="g", value="n", answer_timeout="2 seconds")
        ),
        0,
        "node",
    )
    made.connect(None)
    taken = list(_taken(made, 3))
    made.acknowledge(taken[:3])
    with client(replica) as reads:
        wait_for(lambda: _pending(reads) == 1)
    master.kill()
    with pytest.raises(TransientError):
        list(_taken(made, 20))
    made.close()
    with client(replica) as writes:
        wait_for(lambda: writes.role()[0] == b"master")
        writes.xadd("s", {"n": "4"})
    until = time.monotonic() + 30
    while True:
        try:
            made.connect(made.cursor())
            break
        except TransientError:
            made.close()
            assert time.monotonic() < until
            time.sleep(0.2)
    with closing(made):
        found = list(_taken(made, 3))
    assert [message.value for message in taken] == [b"0", b"1", b"2", b"3"]
    assert [message.value for message in found] == [b"3", b"4"]


def test_a_server_that_is_no_master_is_not_written_to(service):
    """Pass: it passes with time, as the sentinels will know better."""
    _, replica, sentinel = service
    with client(sentinel, None) as asked:
        asked.execute_command("SENTINEL", "REMOVE", "orders")
        asked.execute_command("SENTINEL", "MONITOR", "orders", "127.0.0.1", replica.port, "1")
    with pytest.raises(TransientError, match="no master any more"):
        connect(RedisOptions.model_validate(given(sentinel, stream="s")), "name")


def test_sentinels_that_know_nothing_are_told(service):
    """Pass: a service that there is not, and sentinels that are away, pass with time; no password shows."""
    _, _, sentinel = service
    for changed in ({"url": "redis://:pw@Orders"}, {"sentinels": ["127.0.0.1:1"]}):
        options = RedisOptions.model_validate(given(sentinel, stream="s") | changed)
        with pytest.raises(TransientError, match=r"knows no Orders|127.0.0.1:1: ") as caught:
            Commands(options, "name")
        assert "pw" not in str(caught.value)
