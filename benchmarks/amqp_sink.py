"""Messages per second into RabbitMQ: the sink's sender, and the whole sink, against bare pika.

Goal: the sender at >= 0.9 of bare pika, with confirms and 1,000 messages in flight on both sides.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import pika
from job import Job
from mainstem import Batch, messages
from mainstem_broker_amqp.connection import parameters
from mainstem_broker_amqp.sink.link import Message, encode_properties
from mainstem_broker_amqp.sink.options import AMQPSinkOptions
from mainstem_broker_amqp.sink.sender import AMQPSender
from mainstem_broker_amqp.sink.sink import AMQPSink
from mainstem_broker_amqp.testing import RabbitMQ
from mainstem_egress.sink import dispatcher_of
from rich.console import Console
from rich.table import Table

MESSAGES = 50_000
BODY = bytes(200)
WINDOW = 1000
ROUNDS = 5
GOAL = 0.9
QUEUE = "bench"


def main() -> None:
    """Run the three sides in turn and print a table."""
    logging.disable(logging.WARNING)
    place = tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True)
    with place as name, RabbitMQ(Path(name, "rabbitmq")) as server:
        _compare(server.url, Path(name))


def _compare(url: str, folder: Path) -> None:
    options = AMQPSinkOptions.model_validate(
        {"url": url, "routing_key": QUEUE, "in_flight": WINDOW}
    )
    spark = Job(folder / "in", folder / "out", max_files=1).session()
    frame = spark.range(0, MESSAGES, 1, 1).selectExpr(
        f"CAST(repeat('x', {len(BODY)}) AS BINARY) AS value",
        "unhex(md5(CAST(id AS STRING))) AS _id",
    )
    frame = frame.localCheckpoint(eager=True)
    sink = AMQPSink(options)

    def whole() -> None:
        refused = sink.write(
            frame, Batch(0, "bench", "bench", "bench", "out", spark, messages(), 1)
        )
        assert refused is None

    sides = {
        "bare pika": lambda: _bare(options),
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
        rates = [MESSAGES / _timed(side, options) for side in sides.values()]
        if number:  # the first warms up
            found.append((*rates, *(rate / rates[0] for rate in rates[1:])))
            table.add_row(str(number), *_texts(found[-1]))
    table.add_section()
    middle = tuple(median(column) for column in zip(*found, strict=True))
    table.add_row("median", *_texts(middle), style="bold")
    console = Console()
    console.print(table)
    console.print(f"goal: sender >= {GOAL} of bare pika; its median is {middle[-2]:.2f}")
    spark.stop()


def _timed(side: Any, options: AMQPSinkOptions) -> float:
    """Return how long a side took; every message must have come, into an empty queue."""
    connection = pika.BlockingConnection(parameters(options, "count")[0])
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.queue_purge(QUEUE)
    began = time.perf_counter()
    side()
    seconds = time.perf_counter() - began
    count = channel.queue_declare(QUEUE, passive=True).method.message_count
    assert count == MESSAGES, f"{count} messages came"
    connection.close()
    return seconds


def _bare(options: AMQPSinkOptions) -> None:
    """Publish as one does by hand: pika's asynchronous connection, a window, counted confirms."""
    sent = confirmed = 0

    def opened(connection: Any) -> None:
        connection.channel(on_open_callback=ready)

    def ready(channel: Any) -> None:
        channel.confirm_delivery(
            lambda answer: confirm(channel, answer.method), callback=lambda _: pump(channel)
        )

    def pump(channel: Any) -> None:
        nonlocal sent
        while sent < MESSAGES and sent - confirmed < WINDOW:
            properties = pika.BasicProperties(delivery_mode=2, message_id=f"{sent:032x}")
            channel.basic_publish("", QUEUE, BODY, properties, mandatory=True)
            sent += 1

    def confirm(channel: Any, method: Any) -> None:
        nonlocal confirmed
        assert method.NAME == "Basic.Ack"
        confirmed = method.delivery_tag if method.multiple else confirmed + 1
        if confirmed >= MESSAGES:
            channel.connection.close()
        else:
            pump(channel)

    connection = pika.SelectConnection(
        parameters(options, "bare")[0],
        on_open_callback=opened,
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.start()


def _sender(options: AMQPSinkOptions) -> None:
    refused: list[Any] = []
    dispatcher = dispatcher_of(
        AMQPSender(options, "sender"), options, lambda *row: refused.append(row)
    )
    size = len(BODY)
    for number in range(MESSAGES):
        name = f"{number:032x}"
        properties = encode_properties({"delivery_mode": 2, "message_id": name}, {})
        dispatcher.send(Message(None, size, None, BODY, QUEUE, name, properties))
    dispatcher.flush()
    dispatcher.close()
    assert not refused


def _texts(values: tuple[float, ...]) -> tuple[str, ...]:
    *rates, sender, sink = values
    return (*(f"{rate:,.0f}" for rate in rates), f"{sender:.2f}", f"{sink:.2f}")


if __name__ == "__main__":
    main()
