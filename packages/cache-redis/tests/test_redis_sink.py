"""What Redis says, and what entries look like."""

from __future__ import annotations

import threading
import uuid
from base64 import b64encode

import pytest
from mainstem import DocumentError, OptionError, PermanentError
from mainstem.columns import read_columns
from mainstem_cache_redis.options import RedisOptions
from mainstem_cache_redis.sink import RedisSink
from mainstem_cache_redis.testing import Redis
from mainstem_testkit import wait_for
from mainstem_testkit.certificates import make_certificates
from mainstem_testkit.conformance.sender import send_by
from mainstem_testkit.server import free_port

SHAPE = None  # which is not looked at


@pytest.fixture
def stream():
    return f"test-{uuid.uuid4()}"


def client_of(server):
    import redis

    return redis.Redis("127.0.0.1", server.port)


@pytest.fixture
def client(redis):
    with client_of(redis) as client:
        yield client


def sink(**options):
    return RedisSink(RedisOptions.model_validate(options))


def row(number, **more):
    return {"value": b"%d" % number, "_id": number.to_bytes(16, "big"), **more}


def test_an_entry_has_a_field_for_each_column(redis, client, stream):
    """Pass: what is null has none, headers are apart from columns, and the id is the message's."""
    from datetime import UTC, datetime

    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    whole = {"key": b"k", "headers": [("value", b"h"), ("e", None)], "timestamp": at}
    send_by(sink(url=redis.url, stream=stream), [row(1, **whole), row(2, value=None)])
    assert [fields for _, fields in client.xrange(stream)] == [
        {
            b"id": b"0" * 31 + b"1",
            b"value": b"1",
            b"key": b"k",
            b"timestamp": b"1767323045678901",
            b"header:value": b"h",
            b"header:e": b"",
        },
        {b"id": b"0" * 31 + b"2"},
    ]


@pytest.mark.in_turn
def test_a_stream_is_trimmed(redis, client, stream):
    """Pass: of 5,000 entries about 100 stay, the last ones."""
    send_by(sink(url=redis.url, stream=stream, max_length=100), map(row, range(5000)))
    found = [int(fields[b"value"]) for _, fields in client.xrange(stream)]
    assert 100 <= len(found) < 400
    assert found == list(range(5000 - len(found), 5000))


@pytest.mark.parametrize("state", ["full", "read-only"])
@pytest.mark.in_turn
def test_while_redis_can_not_take_them_messages_wait(redis, client, stream, state):
    """Pass: refused for want of memory, or by a replica: all arrive once it is over, in their order."""
    begin, end = {
        "full": (("CONFIG", "SET", "maxmemory", 1), ("CONFIG", "SET", "maxmemory", 0)),
        "read-only": (("REPLICAOF", "127.0.0.1", 1), ("REPLICAOF", "NO", "ONE")),
    }[state]
    client.execute_command(*begin)
    later = threading.Timer(1.0, client.execute_command, end)
    later.start()
    try:
        assert not send_by(sink(url=redis.url, stream=stream), map(row, range(50)))
    finally:
        later.join()
    assert [int(fields[b"value"]) for _, fields in client.xrange(stream)] == list(range(50))


def test_a_command_that_the_server_does_not_have_fails_the_batch(tmp_path, stream):
    """Pass: at once, and no row is refused for it."""
    unknown = pytest.raises(PermanentError, match="unknown command 'XADD'")
    with Redis(tmp_path, 'rename-command XADD ""') as server, unknown:
        send_by(sink(url=server.url, stream=stream), [row(1)])


@pytest.mark.in_turn
def test_a_cluster_is_told(tmp_path, stream):
    """Pass: while no slot is served messages wait; a slot of another node's fails the batch, with that reason."""
    nodes = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        nodes.append(Redis(tmp_path / name, f"cluster-enabled yes\ncluster-port {free_port()}"))
    one, other = nodes
    with one, other, client_of(one) as asked, client_of(other) as its:
        to_one = sink(url=one.url, stream=stream, give_up="1 second")
        with pytest.raises(PermanentError, match=r"Hash slot not served|give_up"):
            send_by(to_one, [row(1)])
        bus = int(its.config_get("cluster-port")["cluster-port"])
        its.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        asked.execute_command("CLUSTER", "MEET", "127.0.0.1", other.port, bus)
        wait_for(lambda: b"cluster_state:ok" in asked.execute_command("CLUSTER", "INFO"))
        with pytest.raises(PermanentError, match="is of a Redis Cluster: write `cluster: true`"):
            send_by(to_one, [row(1)])


@pytest.mark.in_turn
def test_the_order_of_the_log_is_kept(redis, client, stream, pipeline):
    """Pass: with `order: log` each key's messages stand in the order of their positions, whatever the order of
    rows and partitions."""
    schema = "key STRING, value BINARY, origin STRING, partition STRING, position STRING"
    numbers = [*range(0, 60, 2), *range(59, 0, -2)]
    lines = [
        {
            "key": f"k{n % 3}",
            "value": b64encode(b"%d" % n).decode(),
            "origin": "o",
            "partition": "0",
            "position": f"{n:04}",
        }
        for n in numbers
    ]
    for part in range(3):
        pipeline.feed(f"{part}.json", lines[part::3])
    source = {"path": "./in", "format": "jsonlines", "schema": schema}
    options = {"url": redis.url, "stream": stream, "order": "log", "partitions": 2}
    pipeline.document(
        sources={"rows": {"use": "files", "with": source}},
        sinks={"out": {"use": "redis", "from": "rows", "with": options}},
    )
    pipeline.run()
    found = [int(fields[b"value"]) for _, fields in client.xrange(stream)]
    assert sorted(found) == list(range(60))
    for key in range(3):
        mine = [n for n in found if n % 3 == key]
        assert mine == sorted(mine)


def test_a_user_who_may_not_append_fails_the_batch(redis, client, stream):
    """Pass: at once, with what Redis says, and without the password."""
    client.acl_setuser(
        "reader", enabled=True, passwords=["+hunter2"], keys=["*"], commands=["+type"]
    )
    url = f"redis://reader:hunter2@127.0.0.1:{redis.port}"
    with pytest.raises(PermanentError, match="no permissions to run the 'xadd'") as told:
        send_by(sink(url=url, stream=stream), [row(1)])
    assert "hunter2" not in str(told.value)


@pytest.mark.in_turn
def test_tls_is_spoken_with_a_certificate_of_the_client(tmp_path, stream):
    """Pass: entries arrive at a port of TLS that asks for one; without one the batch fails."""
    make_certificates(tmp_path, {"server": "DNS:localhost", "client": "DNS:localhost"})
    port = free_port()
    settings = {
        "tls-port": port,
        "tls-cert-file": tmp_path / "server.pem",
        "tls-key-file": tmp_path / "server.key",
        "tls-ca-cert-file": tmp_path / "ca.pem",
    }
    (tmp_path / "data").mkdir()
    lines = "\n".join(f"{name} {value}" for name, value in settings.items())
    files = {"ca": "ca.pem", "certificate": "client.pem", "key": "client.key"}
    tls = {option: str(tmp_path / file) for option, file in files.items()}
    with Redis(tmp_path / "data", lines) as server, client_of(server) as client:
        there = {"url": f"rediss://localhost:{port}", "stream": stream, "give_up": "2 seconds"}
        assert not send_by(sink(**there, tls=tls), map(row, range(10)))
        assert len(client.xrange(stream)) == 10
        with pytest.raises(PermanentError):
            send_by(sink(**there, tls={"ca": tls["ca"]}), [row(1)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "http://host"}, "expected redis://"),
        ({"url": "redis://host/one"}, "expected a number"),
        ({"url": "redis://host?db=1"}, "no parameters"),
        ({"url": "redis://host:port"}, "[Pp]ort"),
        ({"url": "redis://host", "tls": {}}, "is not rediss://"),
        ({"url": "redis://host", "stream": "a", "stream_from": "b"}, "goes first"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    """Pass: an error that says why, and not what the URL is."""
    with pytest.raises(ValueError, match=words):
        sink(**options)


def test_columns_that_do_not_fit_are_refused():
    """Pass: a stream's name must be there, and be text."""
    made = sink(url="redis://host")
    with pytest.raises(OptionError, match="origin"):
        made.check_types(read_columns("value BINARY"), SHAPE)
    with pytest.raises(OptionError, match="origin"):
        made.check_types(read_columns("value BINARY, origin INT"), SHAPE)
    with pytest.raises(OptionError, match="headers"):
        made.check_types(read_columns("origin STRING, headers STRING"), SHAPE)
    made.check_types(read_columns("value BINARY, key STRING, origin BINARY"), SHAPE)


@pytest.mark.in_turn
def test_a_password_that_is_wrong_ends_a_run_before_its_first_batch(redis, pipeline):
    """Pass: by `prepare`, with Redis' words and without the password."""
    options = {"url": f"redis://:hunter2@127.0.0.1:{redis.port}", "stream": "a"}
    pipeline.document(sinks={"out": {"use": "redis", "from": "lines", "with": options}})
    pipeline.feed("1.jsonl", ["a"])
    with pytest.raises((DocumentError, PermanentError)) as told:
        pipeline.run()
    assert "hunter2" not in str(told.value)
    assert "out" in str(told.value)
