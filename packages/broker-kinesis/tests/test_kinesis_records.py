"""Records become messages: places, times, aggregates and what is wrong with them. Pure: nothing is called."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem_broker_kinesis.aggregation import aggregated, packed, to_tags
from mainstem_broker_kinesis.source.records import HASH_KEY, Seen, messages, position
from mainstem_broker_kinesis.source.shards import Shard

WHOLE = Shard("shardId-000000000000", (), 0, 2**128 - 1)
AT = datetime(2026, 11, 22, 6, 0, 0, 123000, tzinfo=UTC)


def record(data, key="k", sequence="7"):
    return {
        "Data": data,
        "PartitionKey": key,
        "SequenceNumber": sequence,
        "ApproximateArrivalTimestamp": AT,
    }


def made(data, shard=WHOLE, seen=None, **options):
    return messages([record(data)], shard, "clicks", seen or Seen(), **options)


def hash_of(key):
    return int.from_bytes(hashlib.md5(key.encode()).digest())


def test_a_record_becomes_a_message():
    """Pass: every column of it."""
    (message,) = messages([record(b"v", "ключ", "49" * 28)], WHOLE, "clicks", Seen())
    assert (message.key, message.value, message.headers) == ("ключ".encode(), b"v", None)
    assert message.timestamp == round(AT.timestamp() * 1e6)
    assert message.origin == "clicks"
    assert message.extra == (WHOLE.id, "00000000" + "49" * 28 + ".0000000")


@given(st.lists(st.tuples(st.integers(0, 10**56), st.integers(0, 9_999_999)), min_size=2))
def test_positions_sort_as_records_do(places):
    """Pass: text order is the order of sequence number and sub-record, for any of them."""
    texts = [position(str(sequence), sub) for sequence, sub in places]
    assert [texts[i] for i in sorted(range(len(places)), key=places.__getitem__)] == sorted(texts)
    assert len({len(text) for text in texts}) == 1


def test_an_aggregate_becomes_its_records():
    """Pass: in order, each with its data, place, tags as headers and explicit hash key."""
    tags = to_tags(bytes(16), [("a", b"1"), ("b", b"\xff")])
    data = aggregated([packed(b"x", tags, hashed=True), packed(b"", hashed=True)], b"key", b"42")
    first, second = made(data)
    assert (first.value, second.value) == (b"x", b"")
    assert first.key == second.key == b"key"
    assert dict(first.headers) == {"a": b"1", "b": b"\xff", HASH_KEY: b"42"}
    assert [m.extra[1][-9:] for m in (first, second)] == ["7.0000000", "7.0000001"]
    assert first.extra[1] < second.extra[1] < position("8")


@pytest.mark.parametrize(("ids", "expected"), [(True, bytes(range(16))), (False, None)])
def test_the_identity_that_our_sink_packs_tells_messages_apart_by_option(ids, expected):
    """Pass: it is the message's id where that is asked for, and nothing else."""
    data = aggregated([packed(b"x", to_tags(bytes(range(16)), []))], b"key")
    (message,) = made(data, ids=ids)
    assert message.id == expected
    assert message.headers is None


def test_records_of_another_shard_are_dropped_and_counted():
    """Pass: after a split, those in the shard's half are there, and the other ones are counted."""
    half = Shard("shardId-000000000001", (WHOLE.id,), 0, 2**127 - 1)
    keys = [f"k{n}" for n in range(20)]
    seen = Seen()
    found = [
        m.key.decode()
        for key in keys
        for m in made(aggregated([packed(b"x")], key.encode()), half, seen)
    ]
    assert found == [key for key in keys if hash_of(key) < 2**127]
    assert 0 < len(found) < 20
    assert seen.outside == 20 - len(found)
    assert seen.aggregates == 20


@pytest.mark.parametrize(("hash_key", "inside"), [(b"5", True), (b"%d" % 2**127, False)])
def test_an_explicit_hash_key_decides_the_shard(hash_key, inside):
    """Pass: whatever the partition key's hash is."""
    half = Shard("shardId-000000000001", (), 0, 2**127 - 1)
    data = aggregated([packed(b"x", hashed=True)], b"any", hash_key)
    assert len(made(data, half)) == inside


def damaged(kind):
    data = aggregated([packed(b"x" * 50, [(b"t", b"v")])], b"key")
    body = data[4:-16]

    def whole(content):
        return data[:4] + content + hashlib.md5(content).digest()

    return {
        "altered": data[:30] + b"!" + data[31:],
        "cut": data[:-5],
        "magic alone": data[:4],
        "no protobuf": whole(b"\xff" * 30),
        "a field that does not end": whole(body[:-3]),
        "no such key": whole(b"\x1a\x05\x08\x07\x1a\x01x"),
        "no data": whole(b"\x0a\x01k\x1a\x02\x08\x00"),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "altered",
        "cut",
        "magic alone",
        "no protobuf",
        "a field that does not end",
        "no such key",
        "no data",
    ],
)
def test_a_broken_aggregate_is_refused_whole(kind):
    """Pass: one refused message with the raw bytes and a reason; nothing is raised, nothing is dropped."""
    data = damaged(kind)
    (message,) = made(data)
    assert message.value == data
    assert message.refused.startswith("a broken aggregate: ")
    assert message.extra == (WHOLE.id, position("7"))


@given(st.binary(max_size=80))
def test_whatever_follows_the_magic_bytes_nothing_is_raised(content):
    """Pass: with a right MD5 or without, there are messages, or one refusal."""
    right = hashlib.md5(content).digest()
    for data in (b"\xf3\x89\x9a\xc2" + content, b"\xf3\x89\x9a\xc2" + content + right):
        assert all(m.refused is None or m.value == data for m in made(data))


def test_by_option_aggregates_stay_as_they_are():
    """Pass: one message with the raw bytes, not refused."""
    data = aggregated([packed(b"x")], b"key")
    (message,) = made(data, aggregated=False)
    assert (message.value, message.refused) == (data, None)
