"""Two receivers of one queue beside one, each a process: messages of 100 bytes into durable segments.

For the brokers whose receivers share a queue. The broker works on the same two cores, and where one
receiver is busy with a whole core, two of them have no other to be busy with. Goal: >= 1.6 where the
server allows it.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from mainstem.columns import read_columns
from mainstem.registry import Registry
from mainstem_broker_amqp1.testing import Artemis
from mainstem_broker_kafka.testing import Kafka
from mainstem_broker_pulsar.testing import Pulsar
from mainstem_broker_sqs.testing import CREDENTIALS
from mainstem_ingress import IngressOptions, IngressSource
from mainstem_ingress.log import Log
from mainstem_ingress.loop import Taking
from mainstem_ingress.process import collect_seldom
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import fields_of
from mainstem_ingress.writer import Store
from mainstem_testkit.server import Server
from sqs import InMemory

RUNS = 3
BODY = b"x" * 100
_LOOK = 0.005
_NUMBERS = count()

#: Fills a queue of that name with so many messages; returns the source's options.
Fill = Callable[[Any, str, int], Mapping[str, Any]]


def artemis(server: Any, name: str, messages: int) -> Mapping[str, Any]:
    """Fill a queue of AMQP 1.0."""
    from proton import Data, Message, symbol
    from proton.handlers import MessagingHandler
    from proton.reactor import Container, LinkOption

    class Queue(LinkOption):  # type: ignore[misc]
        def apply(self, link: Any) -> None:
            said = link.target.capabilities
            said.put_array(False, Data.SYMBOL)
            said.enter()
            said.put_symbol(symbol("queue"))

    class Sending(MessagingHandler):  # type: ignore[misc]
        left = open = messages

        def on_start(self, event: Any) -> None:
            self.connection = event.container.connect(server.url, reconnect=False)
            event.container.create_sender(self.connection, name, options=Queue())

        def on_sendable(self, event: Any) -> None:
            while self.left and event.sender.credit:
                event.sender.send(Message(BODY, durable=True, inferred=True))
                self.left -= 1

        def on_accepted(self, _: Any) -> None:
            self.open -= 1
            if not self.open:
                self.connection.close()

    Container(Sending()).run()
    return {"url": server.url, "address": name}


def kafka(server: Any, name: str, messages: int) -> Mapping[str, Any]:
    """Fill a topic of four partitions."""
    from confluent_kafka import Producer

    server.create(name, 4)
    producer = Producer({"bootstrap.servers": server.url, "queue.buffering.max.messages": messages})
    for number in range(messages):
        producer.produce(name, BODY, b"%d" % number)
    assert producer.flush(60) == 0
    return {"servers": server.url, "topics": [name], "group": name}


def pulsar(server: Any, name: str, messages: int) -> Mapping[str, Any]:
    """Fill a topic; its subscription is made by the first receiver."""
    import pulsar

    client = pulsar.Client(
        server.url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
    )
    client.subscribe(name, "s", pulsar.ConsumerType.Shared).close()
    producer = client.create_producer(name, max_pending_messages=1001, block_if_queue_full=True)
    for _ in range(messages):
        producer.send_async(BODY, callback=lambda *_: None)
    producer.flush()
    client.close()
    return {"url": server.url, "topic": name, "subscription": "s"}


def sqs(server: Any, name: str, messages: int) -> Mapping[str, Any]:
    """Fill a standard queue."""
    url, client = server.queue(name), server.client()
    entries = [{"Id": str(n), "MessageBody": BODY.decode()} for n in range(10)]
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda _: client.send_message_batch(QueueUrl=url, Entries=entries),
                range(messages // 10),
            )
        )
    return {"queue": name, "endpoint": server.url, "wait": "1 s", "requests": 4, **CREDENTIALS}


@dataclass(frozen=True)
class Case:
    """A source, the server that it is measured with, and how its queue is filled."""

    use: str
    server: type[Server]
    fill: Fill
    messages: int


CASES = (
    Case("amqp1", Artemis, artemis, 40_000),
    Case("kafka_queue", Kafka, kafka, 400_000),
    Case("pulsar_queue", Pulsar, pulsar, 80_000),
    Case("sqs", InMemory, sqs, 20_000),
)


def work(use: str, given: Mapping[str, Any], folder: Path, number: int, stored: Any) -> None:
    """Take as one of the receivers until all together have enough; `stored` has each one's count."""
    found: Any = Registry().component("source", use)
    source: IngressSource = found(found.options_model().model_validate(given))
    collect_seldom()
    log, stop = Log(folder), threading.Event()
    log.receiver(number).mkdir(parents=True, exist_ok=True)
    columns = [(c.name, c.type or "") for c in read_columns(source.extra)]
    made = Store(log, number, IngressOptions(), fields_of(columns))

    receiver = source.receiver()(source.options, number, "node")

    def tell() -> None:
        while not stop.wait(_LOOK):
            stored[number] = made.counts.stored
            if stored[2]:
                stop.set()

    telling = threading.Thread(target=tell)
    telling.start()
    Taking(
        receiver,
        made,
        [Retention(log, made.name, source.options)],
        source.options,
        lambda _: None,
        stop,
    ).work()
    telling.join()


def rate(case: Case, server: Any, folder: Path, receivers: int) -> float:
    """Return how many messages a second so many receivers store, from the first tenth to the last."""
    name = f"q{next(_NUMBERS)}"
    given = {**case.fill(server, name, case.messages), "receivers": receivers}
    spawn = multiprocessing.get_context("spawn")
    stored = spawn.Array("q", 3, lock=False)  # of each receiver, and whether it is enough
    made = [
        spawn.Process(target=work, args=(case.use, given, folder / name, number, stored))
        for number in range(receivers)
    ]
    for each in made:
        each.start()

    def reached(wanted: int) -> tuple[float, int]:
        until = time.monotonic() + 120
        while (found := stored[0] + stored[1]) < wanted:
            assert time.monotonic() < until, f"{case.use}: {found} of {wanted}"
            time.sleep(_LOOK)
        return time.perf_counter(), found

    began, first = reached(case.messages // 10)
    ended, last = reached(case.messages * 9 // 10)
    stored[2] = 1
    for each in made:
        each.join()
    return (last - first) / (ended - began)


def main() -> None:
    """Run each, and print the ratios."""
    for case in CASES:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            with case.server(Path(folder, "server")) as server:
                rates: dict[int, list[float]] = {1: [], 2: []}
                for _ in range(RUNS):
                    for receivers, found in rates.items():
                        found.append(rate(case, server, Path(folder), receivers))
            one, two = (statistics.median(found) for found in rates.values())
            print(f"source {case.use}: {one:,.0f} messages/s, two {two:,.0f}: {two / one:.2f}")


if __name__ == "__main__":
    sys.exit(main())
