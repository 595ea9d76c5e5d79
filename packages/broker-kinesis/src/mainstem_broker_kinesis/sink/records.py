"""From rows to messages, and the records that hold them: keys, and what no key can be."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mainstem.sinks import Refused, values_of

from mainstem_broker_kinesis.aggregation import aggregated, overhead, packed, to_tags

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem_broker_kinesis.sink.options import KinesisSinkOptions

#: The longest partition key (API reference of PutRecords), in characters as Java counts them.
_LONGEST_KEY = 256
_LAST_HASH = 2**128 - 1


class Message(NamedTuple):
    """One row, ready to be put.

    `data` is what the record, or its part in a packed one, holds; `value` what the row had.
    """

    identity: bytes | None
    value: bytes | None
    key: str | None
    hash_key: str | None
    data: bytes


@dataclass(eq=False, slots=True)
class Record:
    """A record of Kinesis: one message, or some that are packed.

    Attributes:
        lane: what it must keep its order within.
        size: bytes of data and partition key, as AWS counts them.
        sent: whether it has been in flight, and so can't be added to.
        alone: whether it is to have a call of its own.
        tries: how often it has failed.
    """

    key: str
    hash_key: str | None
    lane: Hashable
    packed: bool
    messages: list[Message] = field(default_factory=list)
    size: int = 0
    sent: bool = False
    alone: bool = False
    tries: int = 0

    def entry(self) -> dict[str, Any]:
        """Return the record as PutRecords takes it."""
        key = self.key.encode()
        data = self.messages[0].data
        if self.packed:
            hash_key = None if self.hash_key is None else self.hash_key.encode()
            data = aggregated((message.data for message in self.messages), key, hash_key)
        entry: dict[str, Any] = {"Data": data, "PartitionKey": self.key}
        if self.hash_key is not None:
            entry["ExplicitHashKey"] = self.hash_key
        return entry

    def place(self) -> int:
        """Return the hash that decides the shard."""
        if self.hash_key is not None:
            return int(self.hash_key)
        return int.from_bytes(hashlib.md5(self.key.encode(), usedforsecurity=False).digest())

    def apart(self) -> list[Record]:
        """Return a record for each message; what is wrong with this one is then with one of them."""
        made = []
        for message in self.messages:
            one = Record(self.key, self.hash_key, self.lane, self.packed, alone=True)
            one.add(message)
            made.append(one)
        return made

    def add(self, message: Message) -> None:
        """Add a message, of the same key."""
        if not self.messages:
            self.size = _room(self)
        self.messages.append(message)
        self.size += len(message.data)


def _room(record: Record) -> int:
    """Return how many bytes a record has beside its messages."""
    key = record.key.encode()
    hash_key = None if record.hash_key is None else record.hash_key.encode()
    return len(key) + (overhead(key, hash_key) if record.packed else 0)


def messages(
    batch: pa.RecordBatch, options: KinesisSinkOptions, refused: Refused
) -> Iterator[Message]:
    """Yield a message for each row; a row that makes none is noted as refused. A null value is empty."""
    column = partial(values_of, batch)
    raw = options.format == "raw"
    as_hex = options.key_encoding == "hex"
    rows = zip(
        column("value"),
        column(options.partition_key_from),
        column(options.hash_key_from),
        column(None if raw else "headers"),
        column("_id"),
        strict=True,
    )
    for value, key, hash_key, headers, identity in rows:
        data = value or b""
        try:
            name = None if key is None else _partition_key(key, as_hex)
            hashed = None if hash_key is None else _hash_key(hash_key)
        except ValueError as error:
            refused.add(identity, value, str(error))
            continue
        if not raw:
            data = packed(data, to_tags(identity, headers or ()), hashed=hashed is not None)
        yield Message(identity, value, name, hashed, data)


def _partition_key(key: str | bytes, as_hex: bool) -> str:
    if isinstance(key, str):
        text = key
    elif as_hex:
        text = key.hex()
    else:
        try:
            text = key.decode()
        except UnicodeDecodeError:
            raise ValueError(
                f"the partition key is not UTF-8: {key[:40]!r} (key_encoding: hex takes any bytes)"
            ) from None
    if not text:
        raise ValueError("the partition key is empty, which Kinesis does not take")
    length = len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
    if length > _LONGEST_KEY:
        raise ValueError(f"the partition key has {length} characters; Kinesis takes {_LONGEST_KEY}")
    return text


def _hash_key(value: str | int) -> str:
    text = str(value).strip()
    if not (text.isascii() and text.isdecimal()) or len(text) > 60 or int(text) > _LAST_HASH:
        raise ValueError(
            f"the explicit hash key is no whole number from 0 to 2^128-1: {text[:40]!r}"
        )
    return str(int(text))
