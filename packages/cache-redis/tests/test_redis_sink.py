"""What Redis says, and what entries look like."""

from __future__ import annotations

import threading
import uuid

import pytest
from mainstem import DocumentError, OptionError, PermanentError, read_columns
from mainstem_cache_redis.options import RedisOptions
from mainstem_cache_redis.sink import RedisSink
from mainstem_testkit.conformance.sender import send_by

SHAPE = None  # which is not looked at


@pytest.fixture
def stream():
    return f"test-{uuid.uuid4()}"


@pytest.fixture
def client(redis):
    import redis as vendor

    with vendor.Redis("127.0.0.1", redis.port) as client:
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


def test_a_stream_is_trimmed(redis, client, stream):
    """Pass: of 5,000 entries about 100 stay, the last ones."""
    send_by(sink(url=redis.url, stream=stream, max_length=100), map(row, range(5000)))
    found = [int(fields[b"value"]) for _, fields in client.xrange(stream)]
    assert 100 <= len(found) < 400
    assert found == list(range(5000 - len(found), 5000))


def test_while_redis_is_full_messages_wait(redis, client, stream):
    """Pass: refused for want of memory, all arrive once there is room, in their order."""
    client.config_set("maxmemory", 1)
    later = threading.Timer(1.0, client.config_set, ("maxmemory", 0))
    later.start()
    try:
        assert not send_by(sink(url=redis.url, stream=stream), map(row, range(50)))
    finally:
        later.join()
    assert [int(fields[b"value"]) for _, fields in client.xrange(stream)] == list(range(50))


def test_a_user_who_may_not_append_fails_the_batch(redis, client, stream):
    """Pass: at once, with what Redis says, and without the password."""
    client.acl_setuser(
        "reader", enabled=True, passwords=["+hunter2"], keys=["*"], commands=["+type"]
    )
    url = f"redis://reader:hunter2@127.0.0.1:{redis.port}"
    with pytest.raises(PermanentError, match="no permissions to run the 'xadd'") as told:
        send_by(sink(url=url, stream=stream), [row(1)])
    assert "hunter2" not in str(told.value)


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
