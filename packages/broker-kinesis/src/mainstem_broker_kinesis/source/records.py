"""What records of Kinesis become: messages, one for each record, or for each in an aggregate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainstem_ingress import Message

from mainstem_broker_kinesis.aggregation import (
    MAGIC,
    BrokenAggregate,
    SubRecord,
    from_tags,
    unpacked,
)
from mainstem_broker_kinesis.source.shards import Shard

#: The header with an explicit hash key, which only aggregates tell.
HASH_KEY = "kinesis.explicit_hash_key"
_WIDTH, _SUB_WIDTH = 64, 7
_MOST_HASH = 2**128


@dataclass
class Seen:
    """What came of the records that were taken, beside messages.

    `outside` counts records of aggregates whose key belongs to another shard: a producer that did not
    know of a split yet has packed them, and packs them again for the shard that they belong to (so the
    Kinesis Client Library drops them too).
    """

    aggregates: int = 0
    outside: int = 0


def position(sequence: str, sub: int = 0) -> str:
    """Return a record's place in its shard, as text whose order is that of records."""
    return f"{sequence:0>{_WIDTH}}.{sub:0{_SUB_WIDTH}}"


def messages(
    records: Sequence[Mapping[str, Any]],
    shard: Shard,
    stream: str,
    seen: Seen,
    *,
    aggregated: bool = True,
    ids: bool = False,
) -> list[Message]:
    """Return the messages of a shard's records, in order.

    Args:
        records: as GetRecords gives them.
        shard: whose records they are.
        stream: the origin.
        seen: is added to.
        aggregated: whether aggregates are taken apart.
        ids: whether messages are told apart by the identity that our sink packs with them.
    """
    made: list[Message] = []
    name = shard.id
    for record in records:
        data: bytes = record["Data"]
        sequence: str = record["SequenceNumber"]
        at = round(record["ApproximateArrivalTimestamp"].timestamp() * 1e6)
        if not aggregated or data[:4] != MAGIC:
            place = (name, f"{sequence:0>{_WIDTH}}.0000000")
            key = record["PartitionKey"].encode()
            made.append(Message(data, key, None, at, stream, None, None, None, None, place))
            continue
        seen.aggregates += 1
        try:
            found = unpacked(data)
        except BrokenAggregate as error:
            made.append(
                Message(
                    data,
                    record["PartitionKey"].encode(),
                    timestamp=at,
                    origin=stream,
                    refused=f"a broken aggregate: {error}",
                    extra=(name, position(sequence)),
                )
            )
            continue
        for sub, each in enumerate(found):
            if not _within(each, shard):
                seen.outside += 1
                continue
            identity, headers = from_tags(each.tags)
            if each.hash_key is not None:
                headers = {**headers, HASH_KEY: each.hash_key.encode()}
            made.append(
                Message(
                    each.data,
                    each.key.encode(),
                    list(headers.items()) or None,  # type: ignore[arg-type]  # a value can be None
                    at,
                    stream,
                    identity if ids else None,
                    extra=(name, position(sequence, sub)),
                )
            )
    return made


def _within(record: SubRecord, shard: Shard) -> bool:
    """Whether a record belongs to a shard by its hash; one with a hash that is none does."""
    if record.hash_key is None:
        hashed = int.from_bytes(hashlib.md5(record.key.encode(), usedforsecurity=False).digest())
    else:
        try:
            hashed = int(record.hash_key)
        except ValueError:
            return True
        if not 0 <= hashed < _MOST_HASH:
            return True
    return shard.first <= hashed <= shard.last
