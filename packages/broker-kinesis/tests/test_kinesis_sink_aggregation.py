"""Aggregated records: what is packed can be taken apart, by us and by AWS's own library; broken ones are told."""

from __future__ import annotations

import hashlib
import uuid
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ksisink_reading import read_by_aws
from mainstem_broker_kinesis.aggregation import (
    MAGIC,
    BrokenAggregate,
    aggregated,
    from_tags,
    overhead,
    packed,
    to_tags,
    unpacked,
)

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
_HEADERS = st.dictionaries(
    _TEXTS | st.sampled_from(["mainstem-id", "a;base64", ";base64", ""]),
    st.none() | st.binary(max_size=300),
    max_size=4,
)
_MESSAGES = st.lists(st.tuples(st.binary(max_size=300), _HEADERS), max_size=5)


def marked(message: bytes) -> bytes:
    return MAGIC + message + hashlib.md5(message).digest()


@given(
    _MESSAGES,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256),
    st.booleans(),
)
def test_what_is_packed_comes_apart_as_it_was(messages, key, hashed):
    """Pass: data, identity and headers, whatever bytes they are, come back, and the size is as foretold."""
    hash_key = b"7" if hashed else None
    given_ids = [uuid.uuid4().bytes for _ in messages]
    parts = [
        packed(data, to_tags(identity, headers.items()), hashed=hashed)
        for identity, (data, headers) in zip(given_ids, messages, strict=True)
    ]
    record = aggregated(parts, key.encode(), hash_key)
    assert len(record) == overhead(key.encode(), hash_key) + sum(map(len, parts))
    found = unpacked(record)
    assert [m.data for m in found] == [data for data, _ in messages]
    assert {(m.key, m.hash_key) for m in found} <= {(key, "7" if hashed else None)}
    assert [from_tags(m.tags) for m in found] == [
        (identity, headers) for identity, (_, headers) in zip(given_ids, messages, strict=True)
    ]


def test_awss_own_library_takes_our_records_apart(kinesalite):
    """Pass: it finds the same keys, explicit hash keys and data, its checksum fits, and tags do not disturb it."""
    stream = kinesalite.create(f"agg-{uuid.uuid4().hex[:8]}")
    tags = to_tags(b"\x01" * 16, [("text", b"t"), ("bytes", b"\xff"), ("null", None)])
    plain = aggregated([packed(b"", tags), packed(b"\xff" * 300, tags)], "Zoë".encode())
    hashed = aggregated([packed(b"three", hashed=True)], b"k", b"42")
    kinesalite.put(stream, "Zoë", plain)
    kinesalite.put(stream, "k", hashed, hash_key=42)
    kinesalite.put(stream, "plain", b"four")
    found = [(m["key"], m["hashKey"], m["value"]) for m in read_by_aws(kinesalite, stream)]
    assert found == [
        ("Zoë", None, b""),
        ("Zoë", None, b"\xff" * 300),
        ("k", "42", b"three"),
        ("plain", None, b"four"),
    ]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\x1a", "ends in the middle of a number"),
        (b"\x1a\x05ab", "ends in the middle of a field"),
        (b"\x0a\x01\xff", "partition key is not UTF-8"),
        (b"\x1a\x02\x1a\x00", "no partition key"),
        (b"\x0a\x01a\x1a\x02\x08\x00", "or no data"),
        (b"\x0a\x01a\x1a\x04\x08\x01\x1a\x00", "partition key number 1, and there are 1"),
        (
            b"\x0a\x01a\x1a\x06\x08\x00\x10\x00\x1a\x00",
            "explicit hash key number 0, and there are 0",
        ),
        (b"\x18\x07", "a message is a number"),
        (b"\x0a\x01a\x1a\x06\x08\x00\x1a\x00\x22\x00", "a tag has no name"),
        (b"\x1b", "unknown kind 3"),
        (b"\x18" + b"\xff" * 11, "does not end"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7fa", "in the middle of a field"),
    ],
)
def test_a_broken_aggregate_is_told_by_what_is_wrong(message, why):
    """Pass: whatever is wrong within, it is the one error, and says what."""
    with pytest.raises(BrokenAggregate, match=why):
        unpacked(marked(message))


@given(st.binary(max_size=60))
def test_any_bytes_that_are_marked_come_apart_or_are_broken(message):
    """Pass: no other error, whatever stands between mark and checksum."""
    with suppress(BrokenAggregate):
        assert all(isinstance(m.data, bytes) for m in unpacked(marked(message)))


@given(st.data())
def test_a_changed_byte_does_not_go_unseen(data):
    """Pass: a record of which one byte behind the mark differs is broken."""
    record = aggregated([packed(b"one"), packed(b"two")], b"key")
    at = data.draw(st.integers(len(MAGIC), len(record) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != record[at]))
    with pytest.raises(BrokenAggregate, match="MD5"):
        unpacked(record[:at] + bytes([other]) + record[at + 1 :])


def test_what_other_writers_put_is_taken_apart_too():
    """Pass: messages of many keys, fields nobody knows, and tags that only look like ours."""
    tag = b"\x22\x11\x0a\x0bmainstem-id\x12\x02no"
    first = b"\x08\x01\x1a\x01x" + tag + b"\x28\x05\x35\x00\x00\x00\x00\x39" + b"\x00" * 8
    second = b"\x1a\x01y\x08\x00"
    message = b"".join(
        (
            b"\x0a\x01a",
            b"\x0a\x01b",
            b"\x1a",
            bytes([len(first)]),
            first,
            b"\x1a",
            bytes([len(second)]),
            second,
        )
    )
    found = unpacked(marked(message))
    assert [(m.key, m.data) for m in found] == [("b", b"x"), ("a", b"y")]
    assert from_tags(found[0].tags) == (None, {"mainstem-id": b"no"})
