"""Pulsar read as a log, taken into durable segments, and written, beside bare loops of the same library.

A real broker with BookKeeper, messages of 100 bytes in its batches. The bare ones are the library's own
loops: a reader that reads to the end, a consumer that acknowledges each, a producer that sends all and
waits for the answers. Written by numbers, as exactly-once is, both are without batches.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pulsar  # type: ignore[import-untyped]
import pyarrow as pa
from beside import compare, store
from mainstem.columns import arrow_type, read_columns
from mainstem.positions import Part
from mainstem.sinks import LANE, NUMBER, Refused
from mainstem_broker_pulsar.content import QUEUE_COLUMNS
from mainstem_broker_pulsar.log import TopicLog
from mainstem_broker_pulsar.options import PulsarOptions, PulsarQueueOptions, PulsarSourceOptions
from mainstem_broker_pulsar.receiver import PulsarReceiver
from mainstem_broker_pulsar.sender import NumberedSender, PulsarSender
from mainstem_broker_pulsar.source import PulsarSource
from mainstem_broker_pulsar.testing import Pulsar
from mainstem_egress.sink import dispatcher_of
from mainstem_testkit.conformance.sender import batch_of

MESSAGES, RUNS = 40_000, 3
NAMES = count()
BODY = b"x" * 100
QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")


def fill(client: Any, *, batching: bool = True, named: str | None = None) -> str:
    """Send all messages to a topic of its own, by a bare loop; return its name."""
    topic = f"t{next(NAMES)}"
    producer = client.create_producer(
        topic, named, batching_enabled=batching, max_pending_messages=1001, block_if_queue_full=True
    )
    told = []
    for number in range(MESSAGES):
        producer.send_async(
            BODY,
            callback=lambda result, _: told.append(result),
            partition_key="key",
            properties={"mainstem-id": f"{number:032x}"},
            sequence_id=number + 1 if named else None,
        )
    producer.flush()
    producer.close()
    assert len(told) == MESSAGES
    return topic


def main() -> None:
    """Run all, and print the ratios."""
    with tempfile.TemporaryDirectory() as folder, Pulsar(Path(folder, "broker")) as server:
        client = pulsar.Client(server.url, logger=QUIET)
        topics = [fill(client) for _ in range(RUNS + 1)]

        def log() -> None:
            given = {"url": server.url, "admin_url": server.admin_url, "topic": topics[-1]}
            schema = pa.schema(
                [(c.name, arrow_type(c.type or "")) for c in read_columns(PulsarSource.columns)]
            )
            with closing(
                TopicLog(PulsarSourceOptions.model_validate(given), "node", "bench")
            ) as made:
                seen = made.look()
                ((partition, span),) = seen.spans.items()
                part = Part(seen.identity, partition, span.first - 1, span.last)
                found = sum(chunk.rows.num_rows for chunk in made.read(part, schema, gaps=True))
            assert found == MESSAGES

        def bare_log() -> None:
            reader = client.create_reader(topics[-1], pulsar.MessageId.earliest)
            found = 0
            while reader.has_message_available():
                message = reader.read_next()
                (message.data(), message.partition_key(), message.properties())
                (message.message_id(), message.publish_timestamp())
                found += 1
            assert found == MESSAGES
            reader.close()

        log()
        compare("source pulsar", MESSAGES, "messages", log, bare_log, RUNS)

        subscriptions = (f"s{number}" for number in count())

        def source() -> None:
            given = {
                "url": server.url,
                "topic": topics[-1],
                "subscription": next(subscriptions),
            }
            receiver = PulsarReceiver(PulsarQueueOptions.model_validate(given), 0, "node")
            columns = [(c.name, c.type or "") for c in read_columns(QUEUE_COLUMNS)]
            store(receiver, Path(folder, given["subscription"]), MESSAGES, columns)

        def bare_source() -> None:
            consumer = client.subscribe(
                topics[-1],
                next(subscriptions),
                pulsar.ConsumerType.Shared,
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=5000,
            )
            for _ in range(MESSAGES):
                message = consumer.receive()
                (message.data(), message.partition_key(), message.properties())
                consumer.acknowledge(message)
            consumer.close()

        source()
        compare("source pulsar_queue", MESSAGES, "messages", source, bare_source, RUNS)

        rows = [
            {"key": b"key", "value": BODY, "_id": n.to_bytes(16, "big")} for n in range(MESSAGES)
        ]
        batch = batch_of(rows)
        numbers = pa.array(range(1, MESSAGES + 1), pa.int64())
        numbered = batch.append_column(NUMBER, numbers).append_column(
            LANE, pa.repeat(pa.scalar(0, pa.int32()), MESSAGES)
        )

        def sink(make: Any, given: pa.RecordBatch) -> None:
            options = PulsarOptions.model_validate({"url": server.url, "topic": f"o{next(NAMES)}"})
            sender = make(options, "benchmark")
            with closing(dispatcher_of(sender, options, lambda *_: None)) as sends:
                for message in sender.messages(given, Refused()):
                    sends.send(message)
                sends.flush()

        plain = partial(sink, PulsarSender, batch)
        plain()
        compare("sink pulsar", MESSAGES, "messages", plain, lambda: fill(client), RUNS)
        by_number = partial(sink, partial(NumberedSender, producers="ours"), numbered)
        bare = partial(fill, client, batching=False, named="bare")
        compare("sink pulsar, numbered", MESSAGES, "messages", by_number, bare, RUNS)
        client.close()


if __name__ == "__main__":
    sys.exit(main())
