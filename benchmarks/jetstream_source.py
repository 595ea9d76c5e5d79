"""From a stream of JetStream into Spark: the source `jetstream` beside a bare loop of `fetch(500)`.

    python benchmarks/jetstream_source.py [MESSAGES] [ROUNDS]

A NATS server has one stream of messages of 200 bytes. Each round reads all of it: by nats-py's
`fetch(500)` in a loop that does nothing else, in a process of its own; and by the source, in batches of
a third that are written nowhere (`noop`), read by one task and by two. The source is timed by Spark's own
progress, without its first batch. Prints messages a second and the ratios, medians over the rounds.
Goals: >= 0.9 by one task, >= 1.6 by two.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mainstem.history import ReadProgress
from mainstem.run.spark_source import register

BODY = b"x" * 200
STREAM = "BENCH"
GOALS = {1: 0.9, 2: 1.6}


async def bare(url: str, messages: int) -> None:
    """Read all by nats-py as its documentation shows, and print the seconds from the first message on."""
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig

    client = await nats.connect(url)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    reading = await client.jetstream().pull_subscribe("", stream=STREAM, config=config)
    count, began = 0, time.monotonic()
    while count < messages:
        count += len(await reading.fetch(500))
    print(json.dumps(time.monotonic() - began))
    await client.close()


async def fill(url: str, messages: int) -> None:
    """Put the messages into the stream."""
    import nats

    client = await nats.connect(url)
    jetstream = client.jetstream()
    await jetstream.add_stream(name=STREAM, subjects=[f"{STREAM}.>"])
    for number in range(messages):
        await client.publish(f"{STREAM}.{number % 10}", BODY)
        if number % 5000 == 4999:
            await client.flush()
    until = time.monotonic() + 60
    while (await jetstream.stream_info(STREAM)).state.messages < messages:
        assert time.monotonic() < until, "the stream is not filled"
        await asyncio.sleep(0.1)
    await client.close()


class Context:
    """What a source is handed by a run."""

    node = "log"
    identified = False
    wanted: frozenset[str] = frozenset()
    row_in_task = "0L"

    def __init__(self, spark: Any, place: Path) -> None:
        self.spark = spark
        self.read_name = place.name
        self.progress = ReadProgress(place, "log")
        self._place = place

    def read_planned(self, reading: Any) -> Any:
        word = register(self.spark, reading, self.node, self.read_name)
        return self.spark.readStream.name("log").format(word).load()

    def folder(self) -> Path:
        return self._place.with_name(f"{self._place.name}-node")


def drain(spark: Any, url: str, messages: int, tasks: int, place: Path) -> float:
    """Read all by the source; return messages a second, of all batches but the first."""
    from mainstem_broker_nats.source.jetstream import JetStreamSource
    from mainstem_broker_nats.source.options import JetStreamSourceOptions

    options = {"servers": url, "stream": STREAM, "partitions": tasks, "max_rows": messages // 3}
    source = JetStreamSource(JetStreamSourceOptions.model_validate(options))
    frame = source.load(Context(spark, place))  # type: ignore[arg-type]
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [p for p in query.recentProgress if p.numInputRows]
    assert sum(p.numInputRows for p in batches) == messages
    later = batches[1:]
    return sum(p.numInputRows for p in later) / sum(p.batchDuration for p in later) * 1000


def main(messages: int, rounds: int) -> None:
    from mainstem_broker_nats.testing import NATS
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")  # as the source asks for
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    rates: dict[int, list[float]] = {0: [], 1: [], 2: []}
    with tempfile.TemporaryDirectory() as name, NATS(Path(name, "nats")) as server:
        asyncio.run(fill(server.url, messages))
        for number in range(rounds):
            argv = [sys.executable, __file__, "bare", server.url, str(messages)]
            told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
            rates[0].append(messages / json.loads(told))
            for tasks in GOALS:
                place = Path(name, f"checkpoint-{number}-{tasks}")
                rates[tasks].append(drain(spark, server.url, messages, tasks, place))
        spark.stop()
    print(f"fetch(500)  {statistics.median(rates[0]):10,.0f} messages/s")
    for tasks, goal in GOALS.items():
        print(f"{tasks} task(s)   {statistics.median(rates[tasks]):10,.0f} messages/s")
        ratios = [ours / theirs for ours, theirs in zip(rates[tasks], rates[0], strict=True)]
        print(f"{tasks} task(s) / fetch(500): {statistics.median(ratios):.2f} (goal: >= {goal})")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words[0] == "bare":
        asyncio.run(bare(words[1], int(words[2])))
    else:
        main(*(int(word) for word in [*words, "300000", "3"][:2]))
