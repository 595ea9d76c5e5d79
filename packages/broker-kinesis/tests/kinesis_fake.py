"""Kinesis as a plain model: a client for one process, a clock that a test moves, and failures on demand."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate

from botocore.exceptions import ClientError

DAY = 86_400.0
TOP = 2**128 - 1


@dataclass
class FakeShard:
    id: str
    parents: tuple[str, ...]
    first: int
    last: int
    records: list = field(default_factory=list)
    #: How many of the records are gone.
    trimmed: int = 0
    closed: float | None = None
    children: list = field(default_factory=list)

    def told(self):
        found = {
            "ShardId": self.id,
            "HashKeyRange": {"StartingHashKey": str(self.first), "EndingHashKey": str(self.last)},
            "SequenceNumberRange": {"StartingSequenceNumber": "1"},
        }
        names = ("ParentShardId", "AdjacentParentShardId")
        return found | dict(zip(names, self.parents, strict=False))

    def as_child(self):
        told = self.told()
        return {
            "ShardId": self.id,
            "ParentShards": list(self.parents),
            "HashKeyRange": told["HashKeyRange"],
        }


class FakeKinesis:
    """One stream.

    Args:
        shards: how many there are at first.
        tells_children: whether the end of a shard names its children; kinesalite does not.
    """

    def __init__(self, shards=1, *, tells_children=True, now=1_800_000_000.0):
        self.now = now
        self.retention = DAY
        self.created = now - 10
        self.tells_children = tells_children
        self.shards: dict[str, FakeShard] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.failures: deque[str] = deque()
        self.calls = Counter()
        self.iterators = 0
        self.puts: list[tuple[str, str, bytes]] = []
        self._sequence = itertools.count(10**20)
        self._number = itertools.count()
        self._lock = threading.RLock()
        width = (TOP + 1) // shards
        for at in range(shards):
            self._new((), at * width, TOP if at == shards - 1 else (at + 1) * width - 1)

    # -- what a test does -----------------------------------------------------------------------

    def _new(self, parents, first, last):
        shard = FakeShard(f"shardId-{next(self._number):012d}", tuple(parents), first, last)
        self.shards[shard.id] = shard
        self.parents[shard.id] = shard.parents
        for parent in parents:
            self.shards[parent].children.append(shard)
            self.shards[parent].closed = self.now
        return shard

    def line(self, shard):
        """Return a shard and all that it came from."""
        return {shard}.union(*(self.line(parent) for parent in self.parents[shard]))

    def open(self):
        return [shard for shard in self.shards.values() if shard.closed is None]

    def put(self, key, data, hash_key=None):
        hashed = hash_key
        if hashed is None:
            hashed = int.from_bytes(hashlib.md5(key.encode()).digest())
        with self._lock:
            (shard,) = [s for s in self.open() if s.first <= hashed <= s.last]
            sequence = str(next(self._sequence))
            shard.records.append((sequence, self.now, key, data))
            self.puts.append((shard.id, key, data))
        return sequence

    def split(self, shard):
        with self._lock:
            old = self.shards[shard]
            middle = (old.first + old.last + 1) // 2
            self._new([shard], old.first, middle - 1)
            self._new([shard], middle, old.last)

    def merge(self, one, other):
        with self._lock:
            a, b = sorted([self.shards[one], self.shards[other]], key=lambda s: s.first)
            assert a.last + 1 == b.first
            self._new([one, other], a.first, b.last)

    def wait(self, seconds):
        """Let time pass: records that are too old go, and closed shards without any."""
        with self._lock:
            self.now += seconds
            oldest = self.now - self.retention
            for shard in list(self.shards.values()):
                while (
                    shard.trimmed < len(shard.records) and shard.records[shard.trimmed][1] < oldest
                ):
                    shard.trimmed += 1
                if shard.closed is not None and shard.closed < oldest:
                    del self.shards[shard.id]

    def expire_iterators(self):
        self.iterators += 1

    def fail(self, *codes):
        """Let the next reads fail, each with the next code."""
        self.failures.extend(codes)

    # -- boto3's client -------------------------------------------------------------------------

    def _error(self, operation, code, message="told by the model"):
        return ClientError({"Error": {"Code": code, "Message": message}}, operation)

    def _answer(self, operation, **told):
        self.calls[operation] += 1
        date = formatdate(self.now, usegmt=True)
        return {**told, "ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    def _shard(self, operation, name):
        if name not in self.shards:
            raise self._error(operation, "ResourceNotFoundException", f"no shard {name}")
        return self.shards[name]

    def describe_stream_summary(self, **_):
        return self._answer(
            "DescribeStreamSummary",
            StreamDescriptionSummary={
                "StreamStatus": "ACTIVE",
                "StreamCreationTimestamp": datetime.fromtimestamp(self.created, UTC),
                "RetentionPeriodHours": self.retention / 3600,
            },
        )

    def list_shards(self, **_):
        with self._lock:
            return self._answer(
                "ListShards", Shards=[shard.told() for shard in self.shards.values()]
            )

    def get_shard_iterator(self, *, ShardId, ShardIteratorType, **more):  # noqa: N803
        with self._lock:
            shard = self._shard("GetShardIterator", ShardId)
            assert ShardIteratorType != "LATEST", "data is lost where an iterator begins so"
            at = 0
            if ShardIteratorType == "AFTER_SEQUENCE_NUMBER":
                last = int(more["StartingSequenceNumber"])
                at = sum(int(record[0]) <= last for record in shard.records)
            elif ShardIteratorType == "AT_TIMESTAMP":
                at = sum(record[1] < int(more["Timestamp"]) for record in shard.records)
            return self._answer("GetShardIterator", ShardIterator=self._iterator(ShardId, at))

    def _iterator(self, shard, at):
        return f"{shard}|{at}|{self.iterators}"

    def get_records(self, *, ShardIterator, Limit):  # noqa: N803
        name, at, generation = ShardIterator.split("|")
        with self._lock:
            self.calls["GetRecords"] += 1
            if self.failures:
                raise self._error("GetRecords", self.failures.popleft())
            if int(generation) != self.iterators:
                raise self._error("GetRecords", "ExpiredIteratorException")
            shard = self._shard("GetRecords", name)
            first = max(int(at), shard.trimmed)
            found = shard.records[first : first + Limit]
            end = first + len(found)
            done = shard.closed is not None and end >= len(shard.records)
            waiting = shard.records[end:]
            told = {
                "Records": [
                    {
                        "SequenceNumber": sequence,
                        "ApproximateArrivalTimestamp": datetime.fromtimestamp(arrived, UTC),
                        "Data": data,
                        "PartitionKey": key,
                    }
                    for sequence, arrived, key, data in found
                ],
                "MillisBehindLatest": int((self.now - waiting[0][1]) * 1000) + 1 if waiting else 0,
            }
            if done:
                if self.tells_children:
                    told["ChildShards"] = [child.as_child() for child in shard.children]
            else:
                told["NextShardIterator"] = self._iterator(name, end)
            return self._answer("", **told)

    def close(self):
        self.calls["close"] += 1
