"""The source `redis` over a real server: groups, entries of any kind, trimmed streams, other consumers."""

from __future__ import annotations

import json
import random
import time
import uuid
from contextlib import contextmanager

import pytest
import redis
from mainstem import PermanentError
from mainstem_cache_redis.options import RedisSourceOptions
from mainstem_cache_redis.receiver import RedisReceiver
from mainstem_ingress.losses import loss_of


@pytest.fixture
def client(redis_server):
    with redis.Redis("127.0.0.1", redis_server.port) as made:
        yield made


@pytest.fixture
def redis_server(request):
    return request.getfixturevalue("redis")


@pytest.fixture
def stream():
    return f"s-{uuid.uuid4()}"


@contextmanager
def receiver(server, stream, *, number=0, cursor=None, **more):
    given = {"url": server.url, "streams": [stream], "group": "readers", **more}
    made = RedisReceiver(RedisSourceOptions.model_validate(given), number, "node")
    try:
        made.connect(cursor)
        yield made
    finally:
        made.close()


def take(made, number, seconds=10.0):
    found, until = [], time.monotonic() + seconds
    while len(found) < number and time.monotonic() < until:
        found += made.take(0.1)
    return found


def test_an_entry_is_a_json_object_of_its_fields(redis_server, client, stream):
    """Pass: texts in their order, the time of the id; bytes that are no text are refused as they are."""
    client.xadd(stream, {"näme": "Zoë", "n": "1"}, id="1700000000123-7")
    client.xadd(stream, {"n": b"\xff"})
    with receiver(redis_server, stream) as made:
        first, second = take(made, 2)
    assert json.loads(first.value) == {"näme": "Zoë", "n": "1"}
    assert first.timestamp == 1700000000123000
    assert (first.origin, first.refused) == (stream, None)
    assert second.refused
    assert second.value == b"n \xff"


def test_a_field_is_the_value_and_another_the_key(redis_server, client, stream):
    client.xadd(stream, {"body": b"\xff\x00", "who": "7", "more": "x"})
    client.xadd(stream, {"who": "7"})
    with receiver(redis_server, stream, value="body", key="who") as made:
        first, second = take(made, 2)
    assert (first.value, first.key) == (b"\xff\x00", b"7")
    assert list(first.headers) == [("who", b"7"), ("more", b"x")]
    assert second.refused == "it has no field body"


def test_what_the_sink_has_written_is_read_as_it_was(redis_server, client, stream):
    """Pass: id, key, time and headers; an entry that somebody else has written is known by its own id."""
    mine = {"id": "ab" * 16, "value": "v", "key": "k", "timestamp": "-5", "header:a": "b"}
    client.xadd(stream, mine)
    client.xadd(stream, {"value": "w"}, id="1800000000000-3")
    with receiver(redis_server, stream, format="messages") as made:
        first, second = take(made, 2)
    assert (first.id, first.value, first.key, first.timestamp) == (b"ab" * 16, b"v", b"k", -5)
    assert list(first.headers) == [("a", b"b")]
    assert second.id == f"{stream} 1800000000000-3".encode()


def test_what_was_not_acknowledged_comes_again_first_and_in_order(redis_server, client, stream):
    for number in range(10):
        client.xadd(stream, {"n": str(number)})
    with receiver(redis_server, stream, value="n", prefetch=6) as made:
        taken = take(made, 6)
        assert take(made, 1, 0.5) == []  # no more than `prefetch` in hand
        made.acknowledge(taken[:2])
    with receiver(redis_server, stream, value="n") as made:
        assert [int(message.value) for message in take(made, 8)] == [*range(2, 10)]
        assert made.waiting() == 8


def test_deleted_entries_are_gone_for_all(redis_server, client, stream):
    for number in range(5):
        client.xadd(stream, {"n": str(number)})
    with receiver(redis_server, stream, value="n", delete=True) as made:
        made.acknowledge(take(made, 5)[:3])
    assert client.xlen(stream) == 2


def test_a_group_can_begin_with_what_comes(redis_server, client, stream):
    client.xadd(stream, {"n": "old"})
    with receiver(redis_server, stream, value="n", start="latest") as made:
        client.xadd(stream, {"n": "new"})
        assert [message.value for message in take(made, 1)] == [b"new"]


@pytest.mark.in_turn
def test_what_another_consumer_holds_is_taken_over_once_it_is_silent(redis_server, client, stream):
    """Pass: entries of a consumer that is gone come; those of one that is at work do not."""
    for number in range(4):
        client.xadd(stream, {"n": str(number)})
    with receiver(redis_server, stream, value="n", number=1, receivers=2, prefetch=2) as other:
        at_work = take(other, 2)
        client.xreadgroup("readers", "gone", {stream: ">"}, count=2)
        with receiver(redis_server, stream, value="n", receivers=2) as made:
            # 10 seconds are the least that the option takes.
            object.__setattr__(made.options, "claim_after", made.options.claim_after / 30)
            object.__setattr__(other.options, "claim_after", other.options.claim_after / 30)
            found, until = [], time.monotonic() + 8
            while time.monotonic() < until:
                other.take(0)
                found += made.take(0.1)
    assert sorted(int(message.value) for message in found) == [2, 3]
    assert sorted(int(message.value) for message in at_work) == [0, 1]


def told(messages):
    """Return what is missing: how many, from where to where."""
    found = [loss_of(message) for message in messages if message.refused]
    return [(each["count"], each["from"]) for each in found]


def test_trimmed_entries_are_told_once(redis_server, client, stream):
    """Pass: before they were taken, how many, and not what was read; of what was given, by id."""
    ids = [client.xadd(stream, {"n": str(n)}).decode() for n in range(10)]
    with receiver(redis_server, stream, value="n", prefetch=3) as made:
        made.acknowledge(take(made, 3))
        held = take(made, 3)
        client.xtrim(stream, maxlen=2, approximate=False)
        made.acknowledge(held[:1])
        found = take(made, 2)
        assert told(found) == [(2, ids[5])]
        assert [message.value for message in found[1:]] == [b"8"]
        cursor = made.cursor()
    with receiver(redis_server, stream, value="n", cursor=cursor) as made:
        found = take(made, 4, 3)
        assert told(found) == [(1, ids[4]), (1, ids[5])]
        assert [message.id for message in found[:2]] == [message.id for message in held[1:]]
        assert [message.value for message in found[2:]] == [b"8", b"9"]
        made.acknowledge(found)
        for n in range(10, 30):
            client.xadd(stream, {"n": str(n)})
        made.acknowledge(take(made, 20))
        client.xtrim(stream, maxlen=1, approximate=False)
        client.xadd(stream, {"n": "30"})
        assert [message.value for message in take(made, 2, 1)] == [
            b"30"
        ]  # all that is gone was read


def test_what_is_trimmed_while_nobody_reads_is_told(redis_server, client, stream):
    """Pass: also where nothing is left, and not what was gone before the group was there."""
    client.xadd(stream, {"n": "0"})
    client.xtrim(stream, maxlen=0, approximate=False)
    first = client.xadd(stream, {"n": "1"}).decode()
    with receiver(redis_server, stream, value="n") as made:
        found = take(made, 1)
        assert [message.value for message in found] == [b"1"]
        made.acknowledge(found)
        cursor = made.cursor()
    for n in range(5):
        client.xadd(stream, {"n": str(n)})
    client.xtrim(stream, maxlen=0, approximate=False)
    with receiver(redis_server, stream, value="n", cursor=cursor) as made:
        assert told(take(made, 2, 1)) == [(5, first)]
        cursor = made.cursor()
    with receiver(redis_server, stream, value="n", cursor=cursor) as made:
        assert take(made, 1, 0.5) == []


def test_a_slow_reader_of_a_short_stream_is_told_all_that_it_missed(redis_server, client, stream):
    """Pass: what came and what is told are all that was added, however they take turns."""
    added = came = missed = 0
    with receiver(redis_server, stream, value="n") as made:
        chance = random.Random(5)
        for _ in range(120):
            for _ in range(chance.randrange(12)):
                client.xadd(stream, {"n": str(added)}, maxlen=5, approximate=False)
                added += 1
            if chance.random() < 0.6:
                found = list(made.take(0))
                made.acknowledge(found)
                missed += sum(count for count, _ in told(found))
                came += sum(not message.refused for message in found)
        found = take(made, 100, 1)
        client.xtrim(stream, maxlen=0, approximate=False)  # what was passed over is seen by then
        found += take(made, 100, 1)
    missed += sum(count for count, _ in told(found))
    came += sum(not message.refused for message in found)
    assert (came + missed, missed > 100) == (added, True)


def test_trimmed_entries_of_a_consumer_that_is_gone_are_told(redis_server, client, stream):
    ids = [client.xadd(stream, {"n": str(n)}).decode() for n in range(4)]
    client.xgroup_create(stream, "readers", 0)
    client.xreadgroup("readers", "gone", {stream: ">"})
    client.xtrim(stream, maxlen=1, approximate=False)
    with receiver(redis_server, stream, value="n") as made:
        object.__setattr__(made.options, "claim_after", made.options.claim_after * 0)
        found = take(made, 4, 3)
        assert sorted(told(found)) == [(1, each) for each in ids[:3]]
        assert [message.value for message in found if not message.refused] == [b"3"]
    with receiver(redis_server, stream, value="n") as made:  # nothing of that was stored
        object.__setattr__(made.options, "claim_after", made.options.claim_after * 0)
        found = take(made, 4, 3)
        assert sorted(told(found)) == [(1, each) for each in ids[:3]]
        made.acknowledge(found)
        assert take(made, 1, 0.5) == []
    assert client.xpending(stream, "readers")["pending"] == 0


def test_a_stream_that_is_made_anew_is_told(redis_server, client, stream):
    client.xadd(stream, {"n": "0"}, id="1000-0")
    with receiver(redis_server, stream, value="n") as made:
        made.acknowledge(take(made, 1))
        cursor = made.cursor()
    client.delete(stream)
    client.xadd(stream, {"n": "1"}, id="5-0")
    with (
        pytest.raises(PermanentError, match="was made anew"),
        receiver(redis_server, stream, value="n", cursor=cursor),
    ):
        pass


def test_a_stream_whose_newest_entries_a_failover_has_lost_goes_on(redis_server, client, stream):
    """Pass: its group is there, so it is the same one; what comes then is taken."""
    client.xadd(stream, {"n": "0"}, id="1000-0")
    with receiver(redis_server, stream, value="n") as made:
        made.acknowledge(take(made, 1))
        _, told_before = json.loads(made.cursor())[stream]
    cursor = json.dumps({stream: ["2000-0", told_before]})
    client.xadd(stream, {"n": "1"}, id="1500-0")
    with receiver(redis_server, stream, value="n", cursor=cursor) as made:
        assert [message.value for message in take(made, 1)] == [b"1"]


def test_no_more_is_in_hand_than_was_said_whatever_the_streams(redis_server, client, stream):
    streams = [f"{stream}{n}" for n in range(3)]
    for each in streams:
        for number in range(20):
            client.xadd(each, {"n": str(number)})
    with receiver(redis_server, stream, streams=streams, prefetch=10) as made:
        assert len(take(made, 30, 1)) == 10


@pytest.mark.parametrize("time", [b"--5", b"9" * 5000, b"x", b""])
def test_an_odd_time_is_that_of_the_entry(redis_server, client, stream, time):
    client.xadd(stream, {"value": "v", "timestamp": time, "id": ""}, id="1700000000000-0")
    with receiver(redis_server, stream, format="messages") as made:
        (found,) = take(made, 1)
    assert (found.timestamp, found.value) == (1700000000000000, b"v")
    assert found.id == f"{stream} 1700000000000-0".encode()


def test_an_id_that_is_no_time_has_none(redis_server, client, stream):
    client.xadd(stream, {"n": "1"}, id="18446744073709551615-1")
    with receiver(redis_server, stream) as made:
        assert take(made, 1)[0].timestamp is None


def test_a_new_receiver_does_not_make_a_group_that_others_have_read(
    redis_server, client, stream, monkeypatch
):
    """Pass: what another receiver has stored counts, be it that this one has nothing."""
    client.xadd(stream, {"n": "0"})
    with receiver(redis_server, stream, value="n") as made:
        made.acknowledge(take(made, 1))
        stored = made.cursor()
    client.xgroup_destroy(stream, "readers")
    monkeypatch.setattr(RedisReceiver, "stored_cursors", lambda _: {0: stored})
    with (
        pytest.raises(PermanentError, match="is gone, and entries that it gave are stored"),
        receiver(redis_server, stream, value="n", number=1, receivers=2),
    ):
        pass


def test_a_group_that_is_gone_is_made_where_the_log_is(redis_server, client, stream):
    """Pass: nothing comes twice; of several receivers nobody knows, so that it is an error."""
    for number in range(6):
        client.xadd(stream, {"n": str(number)})
    with receiver(redis_server, stream, value="n", prefetch=4) as made:
        made.acknowledge(take(made, 4))
        cursor = made.cursor()
    client.xgroup_destroy(stream, "readers")
    with (
        pytest.raises(PermanentError, match="is gone, and entries that it gave are stored"),
        receiver(redis_server, stream, value="n", receivers=2, cursor=cursor),
    ):
        pass
    with receiver(redis_server, stream, value="n", cursor=cursor) as made:
        assert [int(message.value) for message in take(made, 2)] == [4, 5]
        assert take(made, 1, 0.5) == []


def test_a_group_that_goes_while_it_is_read_is_made_again(redis_server, client, stream):
    """Pass: the receiver fails in a way that is retried, and goes on where it was."""
    from mainstem import TransientError

    client.xadd(stream, {"n": "0"})
    with receiver(redis_server, stream, value="n") as made:
        made.acknowledge(take(made, 1))
        client.xgroup_destroy(stream, "readers")
        with pytest.raises(TransientError):
            take(made, 1, 1)
        made.close()
        made.connect(made.cursor())
        client.xadd(stream, {"n": "1"})
        assert [message.value for message in take(made, 1)] == [b"1"]


def test_several_streams_are_one_source(redis_server, client, stream):
    for number in range(3):
        client.xadd(stream, {"n": str(number)})
        client.xadd(stream + "b", {"n": str(number)})
    with receiver(redis_server, stream, value="n", streams=[stream, stream + "b"]) as made:
        assert made.waiting() == 6
        found = take(made, 6)
    assert {message.origin for message in found} == {stream, stream + "b"}
    assert len({message.id for message in found}) == 6
