"""Streams of an emulator, and an oracle: the emulator's own records, not read by our client."""

from __future__ import annotations

import uuid
from collections import defaultdict

from kinesis_logs import MemoryLog, Worker
from mainstem_broker_kinesis.source.records import position


class Stream:
    """A stream of an emulator, and what is put into it."""

    def __init__(self, server, shards=1):
        self.server = server
        self.name = server.create(f"s-{uuid.uuid4().hex[:12]}", shards)
        self.count = 0

    def put(self, count):
        for number in range(self.count, self.count + count):
            self.server.put(self.name, f"key {number % 5}", b"%d" % number)
        self.count += count

    def open(self):
        """The open shards, in the order of their hashes."""
        found = [
            s
            for s in self.server.shards(self.name)
            if s["SequenceNumberRange"].get("EndingSequenceNumber") is None
        ]
        return [
            s["ShardId"]
            for s in sorted(found, key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))
        ]

    def worker(self, log=None, number=0, url=None, **options):
        given = {
            "stream": self.name,
            "endpoint": url or self.server.url,
            "region": "us-east-1",
            "access_key": "test",
            "secret_key": "a-secret-key",
            "poll_every": "20 ms",
            "attempts": 1,
        }
        return Worker(log or MemoryLog(), number, **{**given, **options})

    def check(self, log):
        """Hold what is stored against the emulator's own records: all once, in each shard's order, and
        each key's in the order of putting, through all shards."""
        expected = {
            shard: [(position(r["SequenceNumber"]), r["Data"]) for r in records]
            for shard, records in self.server.records(self.name).items()
            if records
        }
        found, keys = defaultdict(list), defaultdict(list)
        for message in log.messages:
            shard, place = message.extra
            found[shard].append((place, message.value))
            keys[message.key].append(int(message.value))
        assert found == expected
        assert sum(map(len, keys.values())) == self.count
        assert all(numbers == sorted(numbers) for numbers in keys.values())
