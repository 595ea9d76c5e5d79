"""From a stream to durable segments: our receivers beside a bare loop of boto3 for each shard.

    python benchmarks/kinesis_source.py [RECORDS] [ROUNDS] [EMULATOR]

Fills streams of an emulator (`kinesalite` when left out, or `kinesis_local`) with records of 200 bytes,
and reads one shard, then two: by `get_records` in a loop, one thread or process for each shard, doing
nothing else; by one receiver; and both shards by two receivers. AWS's limits are off for all of them, for
the emulator has none: what is measured is what we add. Each is timed from its first answer, or its first
segment, to its last record. Prints records a second and the ratios, medians over the rounds.

Then, with AWS's limits as they are by default: reads for each shard and second, idle and with records
waiting.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

BODY = b"x" * 200
#: More than any emulator gives.
UNLIMITED = {"reads_per_second": 100_000, "bytes_per_second": 10**12}
_IDLE = 10.0


def given(url: str, stream: str, **more: Any) -> dict[str, Any]:
    """Return the options of a source."""
    return {"stream": stream, "endpoint": url, "region": "us-east-1", **more}


def bare(url: str, stream: str, shards: str, records: str) -> None:
    """Read shards with boto3 as its documentation shows; print when the first and last answer came, and
    how many records came after the first.
    """
    import boto3

    answers: list[tuple[float, int]] = []

    def read(shard: str) -> None:
        client = boto3.client("kinesis", endpoint_url=url, region_name="us-east-1")
        found = client.get_shard_iterator(
            StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )
        iterator, count = found["ShardIterator"], 0
        while count < int(records):
            answer = client.get_records(ShardIterator=iterator, Limit=10_000)
            answers.append((time.time(), len(answer["Records"])))
            count += len(answer["Records"])
            iterator = answer["NextShardIterator"]

    threads = [threading.Thread(target=read, args=(shard,)) for shard in shards.split(",")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.sort()
    told = [answers[0][0], answers[-1][0], sum(count for _, count in answers[1:])]
    print(json.dumps(told), flush=True)


def receiver(url: str, stream: str, folder: str, number: str, receivers: str, records: str) -> None:
    """Run a receiver until it has stored so many records; print when it had the first of them and the
    last, and how many came after the first.
    """
    from mainstem_broker_kinesis.source.options import KinesisSourceOptions
    from mainstem_ingress.log import Log
    from mainstem_ingress.process import Task, work

    options = KinesisSourceOptions.model_validate(
        given(url, stream, receivers=int(receivers), high_water="100 GB", **UNLIMITED)
    )
    target = "mainstem_broker_kinesis.source.receiver:KinesisReceiver"
    columns = (("partition", "string"), ("position", "string"))
    task = Task(target, "bench", int(number), Path(folder), options, columns)
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(task, lambda _: None, stop))
    thread.start()
    own = Path(folder, "receivers", number)
    seen: list[tuple[float, int]] = []
    while not seen or seen[-1][1] < int(records):
        time.sleep(0.005)
        rows = Log(Path(folder)).unread(number, 0)[0] if own.exists() else 0
        if rows and (not seen or rows > seen[-1][1]):
            seen.append((time.time(), rows))
    stop.set()
    thread.join()
    print(json.dumps([seen[0][0], seen[-1][0], seen[-1][1] - seen[0][1]]), flush=True)


def timed(*commands: list[str]) -> float:
    """Run processes side by side; return records a second, all together."""
    running = [
        subprocess.Popen([sys.executable, __file__, *c], stdout=subprocess.PIPE, text=True)
        for c in commands
    ]
    told = [json.loads(process.communicate()[0]) for process in running]
    began, ended, rows = zip(*told, strict=True)
    return float(sum(rows) / (max(ended) - min(began)))


def fill(client: Any, stream: str, records: int) -> None:
    """Put so many records into each of the two shards."""
    hashes = (0, 2**128 - 1)
    for at in hashes:
        for first in range(0, records, 500):
            count = min(500, records - first)
            entry = {"Data": BODY, "PartitionKey": "k", "ExplicitHashKey": str(at)}
            client.put_records(StreamName=stream, Records=[entry] * count)


def limits(url: str, stream: str) -> dict[str, float]:
    """Return the reads of a shard and second that the defaults make, with records waiting and without."""
    from mainstem_broker_kinesis.source.options import KinesisSourceOptions
    from mainstem_broker_kinesis.source.receiver import KinesisReceiver

    found = {}
    for name, more in (("with records waiting", {"records_per_read": 50}), ("idle", {})):
        options = KinesisSourceOptions.model_validate(given(url, stream, **more))
        made = KinesisReceiver(options, 0, "bench")
        made.connect(None)
        if name == "idle":
            while not made.caught_up():
                made.take(0.1)
        before, began = made.facts()["calls"].get("GetRecords", 0), time.monotonic()
        while time.monotonic() - began < _IDLE:
            made.take(0.1)
        calls = made.facts()["calls"]["GetRecords"] - before
        found[name] = calls / 2 / (time.monotonic() - began)
        made.close()
    return found


def main(records: int, rounds: int, emulator: str) -> None:
    from mainstem_broker_kinesis import testing as kinesis

    os.environ.update(kinesis.CREDENTIALS)
    kind = {"kinesalite": kinesis.Kinesalite, "kinesis_local": kinesis.KinesisLocal}[emulator]
    import boto3

    with tempfile.TemporaryDirectory() as place, kind(Path(place, "emulator")) as server:
        client = boto3.client("kinesis", endpoint_url=server.url, region_name="us-east-1")
        one, two = server.create("one", 1), server.create("two", 2)
        fill(client, one, records // 2)
        fill(client, two, records)
        rates: dict[str, list[float]] = {}
        each, both = str(records), str(2 * records)
        first, second = (shard["ShardId"] for shard in server.shards(two))
        for number in range(rounds):
            folders = [str(Path(place, f"log-{number}-{kind}")) for kind in range(3)]
            runs = {
                "boto3, one shard": [["bare", server.url, one, first, each]],
                "one receiver, one shard": [
                    ["receiver", server.url, one, folders[0], "0", "1", each]
                ],
                "boto3, two shards": [["bare", server.url, two, f"{first},{second}", each]],
                "boto3, two shards, two processes": [
                    ["bare", server.url, two, shard, each] for shard in (first, second)
                ],
                "one receiver, two shards": [
                    ["receiver", server.url, two, folders[1], "0", "1", both]
                ],
                "two receivers, two shards": [
                    ["receiver", server.url, two, folders[2], str(n), "2", each] for n in range(2)
                ],
            }
            for name, commands in runs.items():
                rates.setdefault(name, []).append(timed(*commands))
        median = {name: statistics.median(found) for name, found in rates.items()}
        for name, rate in median.items():
            print(f"{name:33} {rate:>9,.0f} records/s")
        pairs = [
            ("one receiver, one shard", "boto3, one shard"),
            ("one receiver, two shards", "boto3, two shards"),
            ("two receivers, two shards", "boto3, two shards, two processes"),
            ("two receivers, two shards", "one receiver, one shard"),
            ("boto3, two shards, two processes", "boto3, one shard"),
        ]
        for ours, theirs in pairs:
            print(f"{ours} / {theirs}: {median[ours] / median[theirs]:.2f}")
        for name, found in limits(server.url, two).items():
            print(f"reads for each shard and second, {name}: {found:.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["bare"]:
        bare(*sys.argv[2:])
    elif sys.argv[1:2] == ["receiver"]:
        receiver(*sys.argv[2:])
    else:
        arguments = sys.argv[1:]
        main(
            int(arguments[0]) if arguments else 50_000,
            int(arguments[1]) if len(arguments) > 1 else 3,
            arguments[2] if len(arguments) > 2 else "kinesalite",
        )
