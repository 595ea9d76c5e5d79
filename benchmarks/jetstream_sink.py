"""Messages per second into a JetStream stream: the sink's sender and the whole sink against nats-py.

Goal: both at >= 0.9 of bare `publish_async`, with acknowledgements and 1,000 messages in flight on all
sides.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import nats
from job import Job
from mainstem import Batch, messages
from mainstem_broker_nats.sink.jetstream import JetStreamSink
from mainstem_broker_nats.sink.jetstream_sender import JetStreamSender
from mainstem_broker_nats.sink.messages import Message
from mainstem_broker_nats.sink.options import JetStreamSinkOptions
from mainstem_broker_nats.testing import NATS
from mainstem_egress.sink import dispatcher_of
from nats.js.api import StreamConfig
from rich.console import Console
from rich.table import Table

MESSAGES = 100_000
BODY = bytes(200)
WINDOW = 1000
ROUNDS = 5
GOAL = 0.9
STREAM = "BENCH"
SUBJECT = "bench.a"


def main() -> None:
    """Run the three sides in turn and print a table."""
    logging.disable(logging.WARNING)
    place = tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True)
    with place as name, NATS(Path(name, "nats")) as server:
        _compare(server.url, Path(name))


def _compare(url: str, folder: Path) -> None:
    given = {"servers": url, "stream": STREAM, "subject": SUBJECT, "in_flight": WINDOW}
    options = JetStreamSinkOptions.model_validate(given)
    spark = Job(folder / "in", folder / "out", max_files=1).session()
    frame = spark.range(0, MESSAGES, 1, 1).selectExpr(
        f"CAST(repeat('x', {len(BODY)}) AS BINARY) AS value",
        "unhex(md5(CAST(id AS STRING))) AS _id",
    )
    frame = frame.localCheckpoint(eager=True)
    sink = JetStreamSink(options)

    def whole() -> None:
        batch = Batch(0, "bench", "bench", "bench", "out", spark, messages(), 1)
        assert sink.write(frame, batch) is None

    sides = {
        "bare nats-py": lambda: asyncio.run(_bare(url)),
        "sender": lambda: _sender(options),
        "sink in Spark": whole,
    }
    table = Table(
        title=f"Publishing: {MESSAGES:,} messages of {len(BODY)} bytes, {WINDOW:,} in flight",
        title_justify="left",
    )
    for column in ("round", *(f"{side}, msgs/s" for side in sides), "sender", "sink in Spark"):
        table.add_column(column, justify="right")
    found = []
    for number in range(ROUNDS + 1):
        rates = [MESSAGES / _timed(side, url) for side in sides.values()]
        if number:  # the first warms up
            found.append((*rates, *(rate / rates[0] for rate in rates[1:])))
            table.add_row(str(number), *_texts(found[-1]))
    table.add_section()
    middle = tuple(median(column) for column in zip(*found, strict=True))
    table.add_row("median", *_texts(middle), style="bold")
    console = Console()
    console.print(table)
    console.print(
        f"goal: >= {GOAL} of bare nats-py; medians are {middle[-2]:.2f} for the sender and "
        f"{middle[-1]:.2f} for the sink in Spark"
    )
    spark.stop()


def _timed(side: Any, url: str) -> float:
    """Return how long a side took; every message must have come, into an empty stream."""
    asyncio.run(_empty(url))
    began = time.perf_counter()
    side()
    seconds = time.perf_counter() - began
    count = asyncio.run(_count(url))
    assert count == MESSAGES, f"{count} messages came"
    return seconds


async def _empty(url: str) -> None:
    """Make the stream anew: one that is purged still knows ids."""
    client = await nats.connect(url)
    stream = client.jetstream()
    with suppress(nats.js.errors.NotFoundError):
        await stream.delete_stream(STREAM)
    await stream.add_stream(StreamConfig(name=STREAM, subjects=["bench.>"]))
    await client.close()


async def _count(url: str) -> int:
    client = await nats.connect(url)
    found = await client.jetstream().stream_info(STREAM)
    await client.close()
    return found.state.messages


async def _bare(url: str) -> None:
    """Publish as one does by hand: nats-py's own pipelined publishing, with ids and a bounded window."""
    client = await nats.connect(url)
    stream = client.jetstream(publish_async_max_pending=WINDOW)
    for number in range(MESSAGES):
        headers = {"Nats-Msg-Id": f"{number:032x}"}
        await stream.publish_async(SUBJECT, BODY, headers=headers)
    await stream.publish_async_completed()
    await client.close()


def _sender(options: JetStreamSinkOptions) -> None:
    refused: list[Any] = []
    dispatcher = dispatcher_of(
        JetStreamSender(options, "bench"), options, lambda *row: refused.append(row)
    )
    for number in range(MESSAGES):
        name = f"{number:032x}"
        head = b"NATS/1.0\r\nNats-Expected-Stream: BENCH\r\nNats-Msg-Id: %b\r\n\r\n" % name.encode()
        dispatcher.send(Message(None, SUBJECT, head, BODY, len(head) + len(BODY), name))
    dispatcher.flush()
    dispatcher.close()
    assert not refused


def _texts(values: tuple[float, ...]) -> tuple[str, ...]:
    *rates, sender, sink = values
    return (*(f"{rate:,.0f}" for rate in rates), f"{sender:.2f}", f"{sink:.2f}")


if __name__ == "__main__":
    main()
