"""A Redis Cluster of real servers: rows and entries go where their slots are, also after these moved."""

from __future__ import annotations

import time
import uuid
from contextlib import closing

import pyarrow as pa
import pytest
import redis
from mainstem import FencedError, TransientError
from mainstem.run.verifying import verify
from mainstem.sinks import Refused
from mainstem_cache_redis.options import RedisOptions, RedisSourceOptions, RedisTableOptions
from mainstem_cache_redis.receiver import RedisReceiver
from mainstem_cache_redis.rows import DELETED, Rows
from mainstem_cache_redis.sender import RedisSender
from mainstem_cache_redis.slots import SLOTS, beside, slot_of, tags
from mainstem_cache_redis.testing import Redis
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.server import free_port
from pydantic import ValidationError


class Servers:
    """Three masters, and a replica of the first."""

    def __init__(self, folder):
        settings = (
            "cluster-enabled yes\ncluster-node-timeout 1500\ncluster-require-full-coverage no\n"
        )
        self.all = [
            Redis(folder / f"n{number}", f"{settings}cluster-port {free_port()}")
            for number in range(4)
        ]

    def start(self):
        for server in self.all:
            server.start()
        first, *others = self.all
        for number, server in enumerate(self.all):
            with client(server) as asked:
                asked.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, server in enumerate(self.all[:3]):
            low, high = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
            with client(server) as asked:
                asked.execute_command("CLUSTER", "ADDSLOTSRANGE", low, high)
        with client(first) as asked:
            for server in others:
                with client(server) as its:
                    bus = int(its.config_get("cluster-port")["cluster-port"])
                asked.execute_command("CLUSTER", "MEET", "127.0.0.1", server.port, bus)
            name = asked.execute_command("CLUSTER", "MYID").decode()
        for server in self.all:
            with client(server) as asked:
                wait_for(lambda asked=asked: nodes(asked).count(b"connected") == 4)
        with client(self.all[3]) as asked:
            asked.execute_command("CLUSTER", "REPLICATE", name)
        for server in self.all:
            with client(server) as asked:
                wait_for(
                    lambda asked=asked: (
                        b"cluster_state:ok" in asked.execute_command("CLUSTER", "INFO")
                    )
                )
        with client(self.all[3]) as asked:
            wait_for(lambda: asked.info("replication")["master_link_status"] == "up")

    def stop(self):
        for server in self.all:
            if server.running:
                server.stop()

    @property
    def url(self):
        """One of them, which is not the first."""
        return self.all[1].url

    def masters(self):
        for server in self.all:
            if server.running:
                with client(server) as asked:
                    if asked.role()[0] == b"master":
                        yield asked

    def held(self, prefix):
        """Return the hashes whose names begin so, of all masters."""
        return {
            name.decode(): asked.hgetall(name)
            for asked in self.masters()
            for name in asked.keys(f"{prefix}*")
        }


def client(server):
    return redis.Redis("127.0.0.1", server.port)


def nodes(asked):
    return asked.execute_command("CLUSTER", "NODES")


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory, redis):  # skips without the server
    """A cluster for the tests that break nothing."""
    found = Servers(tmp_path_factory.mktemp("cluster"))
    found.start()
    yield found
    found.stop()


def table(servers, prefix, **more):
    given = {"url": servers.url, "cluster": True, "key": f"{prefix}:{{id}}", **more}
    return RedisTableOptions.model_validate(given)


def packed(*arguments):
    return b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in arguments)


def changes(prefix, rows):
    """Return rows as tasks have them: id, version, and a value, None for a deletion."""
    made = {"name": [], "arguments": [], "count": []}
    for number, version, value in rows:
        made["name"].append(packed(f"{prefix}:{number}".encode()))
        fields = (b"-1",) if value is None else (b"1", b"v", value.encode())
        made["arguments"].append(packed(b"%020d" % version, *fields))
        made["count"].append(2 if value is None else 4)
    return pa.table(made)


def write(options, prefix, sets, deletes=(), run=1):
    target, refused = Rows(options, "test", f"mainstem:p:s:q:{options.key}", run), Refused()
    try:
        target.write(changes(prefix, sets), changes(prefix, deletes), refused)
    finally:
        target.close()
    return refused


@pytest.mark.in_turn
def test_slots_are_those_of_redis(redis_cluster):
    """Pass: of plain names, of tags, of braces that are none; and names beside them have the same."""
    with client(redis_cluster.all[0]) as asked:
        for name in ("a", "a{b}c", "a{}c", "{x", "x}", "é", "", "{a}{b}", "a}b{c}d"):
            encoded = name.encode()
            assert slot_of(encoded) == asked.execute_command("CLUSTER", "KEYSLOT", encoded), name
            other = slot_of(beside("mainstem:deleted:", encoded))
            assert (other == slot_of(encoded)) == (name not in ("a{}c", "x}", "")), name
    assert [slot_of(tag.encode()) for tag in tags()] == list(range(SLOTS))


def test_rows_go_where_their_slots_are(redis_cluster):
    """Pass: on all servers; an older change has no effect, also after a deletion; an older run is refused."""
    prefix = f"t{uuid.uuid4()}"
    options = table(redis_cluster, prefix)
    write(options, prefix, [(n, 5, f"v{n}") for n in range(200)])
    assert len(redis_cluster.held(prefix)) == 200
    assert all(any(asked.keys(f"{prefix}*")) for asked in redis_cluster.masters())
    write(options, prefix, [(1, 4, "old"), (2, 6, "new")], [(3, 7, None)])
    write(options, prefix, [(3, 6, "back")])
    held = redis_cluster.held(prefix)
    assert held[f"{prefix}:1"][b"v"] == b"v1"
    assert held[f"{prefix}:2"][b"v"] == b"new"
    assert f"{prefix}:3" not in held
    (mark,) = [n for asked in redis_cluster.masters() for n in asked.keys(f"{DELETED}{{{prefix}*")]
    assert mark.decode() == f"{DELETED}{{{prefix}:3}}"
    odd = write(options, prefix, [("x}", 1, "v"), (7, 6, "good")])
    ((refused, *_),) = (batch.column("reason").to_pylist() for batch in odd.take())
    assert "no pair of braces" in refused
    assert redis_cluster.held(prefix)[f"{prefix}:7"][b"v"] == b"good"
    assert f"{prefix}:x}}" not in redis_cluster.held(prefix)
    write(options, prefix, [(1, 9, "later")], run=3)
    with pytest.raises(FencedError):
        write(options, prefix, [(1, 10, "earlier")], run=2)


@pytest.mark.in_turn
def test_a_table_is_compared_with_all_servers(pipeline, redis_cluster):
    """Pass: `verify` finds what was damaged wherever it is, and puts it right."""
    prefix = f"v{uuid.uuid4()}"
    lines = {"path": "./in", "format": "jsonlines", "schema": "id INT, at BIGINT, note STRING"}
    changed = {"key": ["id"], "sequence": "at"}
    given = {"url": redis_cluster.url, "cluster": True, "key": f"{prefix}:{{id}}"}
    pipeline.document(
        sources={"rows": {"use": "files", "with": lines}},
        operators={"changes": {"use": "changelog", "from": "rows", "with": changed}},
        sinks={"table": {"use": "redis_table", "from": "changes", "with": given}},
    )
    pipeline.feed("1.jsonl", [{"id": n, "at": 1, "note": f"n{n}"} for n in range(40)])
    pipeline.run()
    for asked in redis_cluster.masters():
        asked.hset(asked.keys(f"{prefix}*")[0], "note", "damaged")
        asked.delete(asked.keys(f"{prefix}*")[1])
    found = verify(pipeline.plan(), "table", repair=True)
    assert found.counts == {"different": 3, "missing": 3}
    assert sum(found.left.values()) == 0
    held = redis_cluster.held(prefix).values()
    assert sorted(int(row[b"note"][1:]) for row in held) == list(range(40))


def test_streams_are_found_by_their_slots(redis_cluster):
    """Pass: a sink appends and a source reads, each on the server that has the stream."""
    for number in range(6):
        stream = f"s{number}-{uuid.uuid4()}"
        send(redis_cluster, stream, 1)
        given = {"streams": [stream], "group": "g", "format": "messages"}
        options = {"url": redis_cluster.url, "cluster": True, **given}
        made = RedisReceiver(RedisSourceOptions.model_validate(options), 0, "node")
        made.connect(None)
        with closing(made):
            taken = [m for _ in range(3) for m in made.take(0.1)]
        assert [message.value for message in taken] == [b"0"]


def send(servers, stream, count):
    given = {"url": servers.url, "cluster": True, "stream": stream}
    sender = RedisSender(RedisOptions.model_validate(given), "test")
    rows = pa.RecordBatch.from_pylist(
        [{"value": b"%d" % n, "_id": b"%016d" % n} for n in range(count)]
    )
    sender.connect()
    with closing(sender):
        for number, message in enumerate(sender.messages(rows, Refused()), 1):
            sender.send(number, message)
        until = time.monotonic() + 10
        answered = 0
        while answered < count and time.monotonic() < until:
            answered += len(list(sender.answers(0.1)))
    assert answered == count


@pytest.mark.in_turn
def test_slots_that_move_and_servers_that_die_are_followed(tmp_path, redis):
    """Pass: rows and entries arrive after slots were moved to another server, and after a replica took
    the place of one that was killed; a task that knew the old places asks anew.
    """
    servers = Servers(tmp_path)
    servers.start()
    try:
        prefix = "moved"
        # The one in `url` is killed below.
        named = {"url": servers.all[0].url, "nodes": [f"127.0.0.1:{servers.all[2].port}"]}
        options = table(servers, prefix, give_up="40 s", connect_timeout="1 s", **named)
        target = Rows(options, "test", f"mainstem:p:s:q:{options.key}", 1)
        rows = [(n, 1, "a") for n in range(60)]
        target.write(changes(prefix, rows), changes(prefix, ()), Refused())
        name = servers.all[1]
        moved = range(SLOTS // 3, SLOTS // 3 + 2500)
        with client(servers.all[2]) as to, client(name) as away:
            new = to.execute_command("CLUSTER", "MYID").decode()
            for slot in moved:
                if not away.execute_command("CLUSTER", "COUNTKEYSINSLOT", slot):
                    to.execute_command("CLUSTER", "SETSLOT", slot, "NODE", new)
                    away.execute_command("CLUSTER", "SETSLOT", slot, "NODE", new)
        rows = [(n, 2, "b") for n in range(200)]
        target.write(changes(prefix, rows), changes(prefix, ()), Refused())
        assert {row[b"v"] for row in servers.held(prefix).values()} == {b"b"}
        assert len(servers.held(prefix)) == 200
        with client(servers.all[3]) as replica:
            wait_for(lambda: replica.dbsize() == next(iter(servers.masters())).dbsize())
        servers.all[0].kill()
        rows = [(n, 3, "c") for n in range(200)]
        target.write(changes(prefix, rows), changes(prefix, ()), Refused())
        target.close()
        held = servers.held(prefix)
        assert len(held) == 200
        assert {row[b"v"] for row in held.values()} == {b"c"}
    finally:
        servers.stop()


@pytest.mark.parametrize(
    ("model", "given", "told"),
    [
        (RedisOptions, {"stream_from": "key"}, "name one stream"),
        (RedisOptions, {"stream": "s", "sentinels": ["a:1"]}, "has no sentinels"),
        (RedisOptions, {"stream": "s", "cluster": False, "nodes": ["a"]}, "cluster is not true"),
        (RedisOptions, {"stream": "s", "url": "redis://h/3"}, "the database 0 alone"),
        (RedisSourceOptions, {"streams": ["a", "b"], "group": "g"}, "streams of one slot"),
    ],
)
def test_what_a_cluster_can_not_do_is_told(model, given, told):
    """Pass: when the document is read."""
    with pytest.raises(ValidationError, match=told):
        model.model_validate({"url": "redis://h", "cluster": True, **given})


def test_a_server_of_no_cluster_is_told(redis):
    """Pass: it says so itself."""
    options = RedisOptions.model_validate({"url": redis.url, "cluster": True, "stream": "s"})
    sender = RedisSender(options, "test")
    with pytest.raises(Exception, match="cluster support disabled") as told:
        sender.connect()
    assert not isinstance(told.value, TransientError)
