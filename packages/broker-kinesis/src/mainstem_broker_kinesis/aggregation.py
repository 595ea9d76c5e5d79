"""Aggregated records: many messages in one record of Kinesis, as AWS's producer library (KPL) packs them.

A record is four bytes that mark it, a message of Protocol Buffers, and the MD5 of that message:

    message AggregatedRecord {
      repeated string partition_key_table     = 1;
      repeated string explicit_hash_key_table = 2;
      repeated Record records                 = 3;
    }
    message Record {
      required uint64 partition_key_index     = 1;
      optional uint64 explicit_hash_key_index = 2;
      required bytes  data                    = 3;
      repeated Tag    tags                    = 4;
    }
    message Tag { required string key = 1; optional string value = 2; }

(`aggregation-format.md` of awslabs/amazon-kinesis-producer.) Readers of AWS's own (KCL, Firehose, Flink's
connector) take such records apart, and ignore tags.

Tags hold what Kinesis has no place for: a message's identity as `mainstem-id`, in hex, and its headers,
each under its name; one whose value is not UTF-8, or whose name says otherwise, as base64 under its name
and `;base64`. A header without a value is a tag without one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST = 16
#: The tag that tells a message from every other, for ever.
ID_TAG = "mainstem-id"
_BASE64 = ";base64"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10

#: A tag's name and value, both UTF-8.
Tag = tuple[bytes, bytes | None]


class BrokenAggregate(ValueError):  # noqa: N818
    """A record is marked as an aggregated one, and can't be taken apart; says why."""


class SubRecord(NamedTuple):
    """One message of an aggregated record."""

    key: str
    hash_key: str | None
    data: bytes
    tags: tuple[tuple[str, str | None], ...]


# -- packing ----------------------------------------------------------------------------------


def packed(data: bytes, tags: Iterable[Tag] = (), *, hashed: bool = False) -> bytes:
    """Return a message as a part of an aggregated record whose messages all have one key.

    Args:
        data: the message.
        tags: its tags.
        hashed: whether the record has an explicit hash key.
    """
    body = b"\x08\x00\x10\x00\x1a" if hashed else b"\x08\x00\x1a"
    body += _length(data) + data
    for name, value in tags:
        tag = b"\x0a" + _length(name) + name
        if value is not None:
            tag += b"\x12" + _length(value) + value
        body += b"\x22" + _length(tag) + tag
    return b"\x1a" + _length(body) + body


def overhead(key: bytes, hash_key: bytes | None = None) -> int:
    """Return how much longer an aggregated record is than its parts, in bytes."""
    return len(MAGIC) + len(_tables(key, hash_key)) + _DIGEST


def aggregated(parts: Iterable[bytes], key: bytes, hash_key: bytes | None = None) -> bytes:
    """Return the record that holds parts made by `packed`, all of one partition key."""
    message = _tables(key, hash_key) + b"".join(parts)
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


def _tables(key: bytes, hash_key: bytes | None) -> bytes:
    tables = b"\x0a" + _length(key) + key
    return tables if hash_key is None else tables + b"\x12" + _length(hash_key) + hash_key


def _length(data: bytes) -> bytes:
    """Return a text's length as a varint."""
    number = len(data)
    if number < 0x80:
        return _SHORT[number]
    told = bytearray()
    while number >= 0x80:
        told.append(number & 0x7F | 0x80)
        number >>= 7
    told.append(number)
    return bytes(told)


_SHORT = [bytes([number]) for number in range(0x80)]


# -- taking apart -----------------------------------------------------------------------------


def is_aggregated(data: bytes) -> bool:
    """Whether a record is marked as an aggregated one."""
    return data.startswith(MAGIC)


def unpacked(data: bytes) -> list[SubRecord]:
    """Return the messages of an aggregated record, in their order.

    Raises:
        BrokenAggregate: it can't be taken apart.
    """
    if not is_aggregated(data) or len(data) < len(MAGIC) + _DIGEST:
        raise BrokenAggregate("it is too short for an aggregated record, or not marked as one")
    message, digest = data[len(MAGIC) : -_DIGEST], data[-_DIGEST:]
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        raise BrokenAggregate("its MD5 is not that of what it holds")
    keys: list[str] = []
    hash_keys: list[str] = []
    records: list[bytes] = []
    for number, value in _fields(message):
        if number == 1:
            keys.append(_text(value, "a partition key"))
        elif number == 2:
            hash_keys.append(_text(value, "an explicit hash key"))
        elif number == 3:
            records.append(_bytes(value, "a message"))
    return [_sub_record(record, keys, hash_keys) for record in records]


def _sub_record(record: bytes, keys: list[str], hash_keys: list[str]) -> SubRecord:
    key: str | None = None
    hash_key: str | None = None
    data: bytes | None = None
    tags = []
    for number, value in _fields(record):
        if number == 1:
            key = _at(keys, value, "partition key")
        elif number == 2:
            hash_key = _at(hash_keys, value, "explicit hash key")
        elif number == 3:
            data = _bytes(value, "a message's data")
        elif number == 4:
            tags.append(_tag(_bytes(value, "a tag")))
    if key is None or data is None:
        raise BrokenAggregate("a message has no partition key, or no data")
    return SubRecord(key, hash_key, data, tuple(tags))


def _tag(tag: bytes) -> tuple[str, str | None]:
    found = {n: _text(value, "a tag's text") for n, value in _fields(tag) if n in (1, 2)}
    if 1 not in found:
        raise BrokenAggregate("a tag has no name")
    return found[1], found.get(2)


def _at(table: list[str], index: int | bytes, what: str) -> str:
    if not isinstance(index, int) or index >= len(table):
        raise BrokenAggregate(f"a message has {what} number {index!r}, and there are {len(table)}")
    return table[index]


def _bytes(value: int | bytes, what: str) -> bytes:
    if isinstance(value, int):
        raise BrokenAggregate(f"{what} is a number")
    return value


def _text(value: int | bytes, what: str) -> str:
    try:
        return _bytes(value, what).decode()
    except UnicodeDecodeError:
        raise BrokenAggregate(f"{what} is not UTF-8") from None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message of Protocol Buffers, unknown ones too."""
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise BrokenAggregate(f"it has a field of the unknown kind {kind}")
        if at + size > end:
            raise BrokenAggregate("it ends in the middle of a field")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    number = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(message):
            raise BrokenAggregate("it ends in the middle of a number")
        byte = message[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise BrokenAggregate("it has a number that does not end")


# -- headers as tags --------------------------------------------------------------------------


def to_tags(identity: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> list[Tag]:
    """Return what stands in the tags of a message with this identity and these headers."""
    tags: list[Tag] = [] if identity is None else [(ID_TAG.encode(), identity.hex().encode())]
    for name, value in headers:
        plain = value is None or (_is_text(value) and name != ID_TAG and not name.endswith(_BASE64))
        if plain:
            tags.append((name.encode(), value))
        else:
            tags.append(((name + _BASE64).encode(), base64.b64encode(value or b"")))
    return tags


def from_tags(
    tags: Iterable[tuple[str, str | None]],
) -> tuple[bytes | None, Mapping[str, bytes | None]]:
    """Return identity and headers that stand in a message's tags; tags of others are headers too.

    A tag that only looks as if it were ours is a header as it is.
    """
    identity: bytes | None = None
    headers: dict[str, bytes | None] = {}
    for name, value in tags:
        if name == ID_TAG and value is not None and identity is None:
            try:
                identity = bytes.fromhex(value)
                continue
            except ValueError:
                pass
        if name.endswith(_BASE64) and value is not None:
            try:
                headers[name.removesuffix(_BASE64)] = base64.b64decode(value, validate=True)
                continue
            except binascii.Error:
                pass
        headers[name] = None if value is None else value.encode()
    return identity, headers


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
