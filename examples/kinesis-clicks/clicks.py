"""A shop's web site and what stands around it, by the name of the command:

    python clicks.py streams                    makes the streams `clicks` and `purchases`
    python clicks.py click [HOW_MANY] [SECONDS] puts clicks, over so many seconds
    python clicks.py split                      splits the largest shard of `clicks`
    python clicks.py purchases                  prints what is in `purchases`

Four seconds pass with each click. Every seventh buys something, and every fiftieth is broken.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3

PAGES = ("/", "/lamps", "/chairs", "/tables")
USERS = 40
_MOST = 500


def click(number: int) -> bytes:
    """Return the data of a click."""
    if number % 50 == 49:
        return b"a click that nobody can read"
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=4 * number)
    made: dict[str, Any] = {"user": user(number), "page": PAGES[number % 4], "at": at.isoformat()}
    if number % 7 == 6:
        made["cents"] = 100 + 7919 * number % 60000
    return json.dumps(made).encode()


def user(number: int) -> str:
    """Return who clicked: the partition key, so that a user's clicks stay in order."""
    return f"user-{number * 31 % USERS}"


def streams(kinesis: Any) -> None:
    """Make the streams, and wait until they can be used."""
    for name, shards in (("clicks", 2), ("purchases", 1)):
        kinesis.create_stream(StreamName=name, ShardCount=shards)
        kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})


def put(kinesis: Any, count: int = 1000, seconds: float = 0.0, first: int = 0) -> None:
    """Put so many clicks, over so many seconds."""
    step = max(1, min(_MOST, count // 20 or 1)) if seconds else _MOST
    for start in range(first, first + count, step):
        numbers = range(start, min(start + step, first + count))
        records = [{"PartitionKey": user(n), "Data": click(n)} for n in numbers]
        while records:
            told = kinesis.put_records(StreamName="clicks", Records=records)["Records"]
            records = [r for r, t in zip(records, told, strict=True) if "ErrorCode" in t]
        time.sleep(seconds * len(numbers) / count)
    print(f"put {count} clicks, {(first + count) // 50 - first // 50} of them broken")


def split(kinesis: Any) -> None:
    """Split the open shard with the most hash keys in its middle."""
    shards = kinesis.list_shards(StreamName="clicks")["Shards"]
    parents = {s.get("ParentShardId") for s in shards} | {
        s.get("AdjacentParentShardId") for s in shards
    }
    ranges = {
        shard["ShardId"]: [
            int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending")
        ]
        for shard in shards
        if shard["ShardId"] not in parents
    }
    name, (low, high) = max(ranges.items(), key=lambda each: each[1][1] - each[1][0])
    middle = str((low + high + 1) // 2)
    kinesis.split_shard(StreamName="clicks", ShardToSplit=name, NewStartingHashKey=middle)
    print(f"split {name} at {middle}")


def purchases(kinesis: Any) -> Iterator[bytes]:
    """Yield what is in `purchases`."""
    for shard in kinesis.list_shards(StreamName="purchases")["Shards"]:
        asked = {"StreamName": "purchases", "ShardId": shard["ShardId"]}
        told = kinesis.get_shard_iterator(**asked, ShardIteratorType="TRIM_HORIZON")
        iterator = told["ShardIterator"]
        while iterator:
            told = kinesis.get_records(ShardIterator=iterator)
            for record in told["Records"]:
                yield record["Data"]
            if not told["Records"] and not told["MillisBehindLatest"]:
                break
            iterator = told.get("NextShardIterator")
            time.sleep(0.2)  # a shard can be read five times a second


def main(command: str = "", *arguments: str) -> None:
    """Do what the command says."""
    kinesis = boto3.client("kinesis")
    if command == "streams":
        streams(kinesis)
    elif command == "click":
        put(
            kinesis, *(kind(text) for kind, text in zip((int, float, int), arguments, strict=False))
        )
    elif command == "split":
        split(kinesis)
    elif command == "purchases":
        for line in purchases(kinesis):
            print(line.decode())
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
