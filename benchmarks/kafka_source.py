"""Kafka to Kafka: a document (decode, select) against the same by hand in PySpark. Goal: ratio >= 0.97.

Both read the same topic in batches of the same size, without headers, and write with Spark's own writer
into topics of their own. Both give each message the header `mainstem-id`, made of the node's name and the
place of the message that it came from; what they write is compared with each other before anything is
timed. Which side begins changes with every round.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from mainstem.plan.build import make_plan
from mainstem.run.runner import run
from mainstem.run.session import start
from mainstem_broker_kafka.testing import Kafka
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 1_500_000
BATCH = 150_000
PARTITIONS = 2
ROUNDS = 5
GOAL = 0.97
JARS = Path(__file__).parents[1] / ".tools/kafka/connector"
SCHEMA = "id BIGINT, city STRING, placed TIMESTAMP, cents BIGINT"

#: What a row's identity is made of, as the core makes it.
PLACE = ("topic", "CAST(partition AS STRING)", "lpad(CAST(offset AS STRING), 19, '0')")

DOCUMENT = """\
pipeline: orders
checkpoint: {place}/checkpoints
trigger: {{available_now: true}}
spark: {{master: "local[2]", conf: {{spark.ui.enabled: false}}}}
sources:
  messages:
    use: kafka
    with: {{servers: "{servers}", topics: [orders], max_rows: {batch}, headers: false, jars: {jars}}}
operators:
  order:
    use: decode
    from: messages
    with: {{format: json, schema: "{schema}"}}
    on_rejected: drop
  euros:
    use: select
    from: order
    with:
      columns: {{id: id, city: city, euros: cents / 100}}
      where: cents >= 100
  out_messages:
    use: encode
    from: euros
    with: {{format: json, key: city}}
sinks:
  out:
    use: kafka
    from: out_messages
    deliver: microbatch
    with: {{servers: "{servers}", topic: {topic}, jars: {jars}}}
"""


def main() -> None:
    """Run both sides in turn and print a table."""
    with (
        tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name,
        Kafka(Path(name, "kafka")) as server,
    ):
        _compare(server.url, Path(name))


def _compare(servers: str, folder: Path) -> None:
    console = Console()
    make_input(servers)
    job = Job(servers, folder)
    spark = job.session()
    table = Table(
        title=f"Kafka to Kafka: {ROWS:,} messages, {ROWS // BATCH} batches", title_justify="left"
    )
    for column in ("round", "document, rows/s", "by hand, rows/s", "ratio"):
        table.add_column(column, justify="right")
    job.compare()
    found = []
    for number, (document, hand) in enumerate(job.rounds(ROUNDS), 1):
        found.append((ROWS / document, ROWS / hand, hand / document))
        table.add_row(str(number), *_texts(found[-1]))
    table.add_section()
    middle = tuple(median(column) for column in zip(*found, strict=True))
    table.add_row("median", *_texts(middle), style="bold")
    console.print(table)
    console.print(f"goal: ratio >= {GOAL}; its median is {middle[2]:.3f}")
    spark.stop()


def make_input(servers: str) -> None:
    """Write the messages that both sides read."""
    _make(servers, "orders")
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "batch.num.messages": 50_000}
    )
    for n in range(ROWS):
        value = (
            f'{{"id":{n},"city":"city-{n * 7919 % 50}","placed":"2026-01-01T00:00:00Z",'
            f'"cents":{n * 31 % 10_000},"note":"left at the door"}}'
        )
        while True:
            try:
                producer.produce("orders", value=value)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0


class Job:
    """The job, on both sides; each run writes into a topic of its own."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._servers = servers
        self._folder = folder
        self._runs = 0

    def session(self) -> SparkSession:
        """Return the session that the document asks for; both sides run in it."""
        return start(make_plan(self._document("none")))

    def compare(self) -> None:
        """Hold what both sides write against each other: keys, values and headers."""
        found = []
        for side in (self.by_document, self.by_hand):
            side(keep=True)
            found.append(_messages(self._servers, f"out-{self._runs}"))
        assert found[0] == found[1], "the two sides wrote different messages"

    def rounds(self, count: int) -> Iterator[tuple[float, float]]:
        """Run both sides in turn; yield the seconds of (document, by hand) for each round after one.

        `compare` has warmed both up before.
        """
        for number in range(count + 1):
            if number % 2:
                hand, document = self.by_hand(), self.by_document()
            else:
                document, hand = self.by_document(), self.by_hand()
            if number >= 1:
                yield document, hand

    def by_document(self, *, keep: bool = False) -> float:
        """Run the document; return how long it took, in seconds."""
        topic = self._fresh()
        file = self._document(topic)
        began = time.perf_counter()
        run(make_plan(file))
        seconds = time.perf_counter() - began
        self._check(topic, keep=keep)
        return seconds

    def by_hand(self, *, keep: bool = False) -> float:
        """Run the same job as one would write it in PySpark; return how long it took, in seconds."""
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as F  # noqa: N812

        topic = self._fresh()
        spark = SparkSession.builder.getOrCreate()
        began = time.perf_counter()
        messages = (
            spark.readStream.name("messages")
            .format("kafka")
            .option("kafka.bootstrap.servers", self._servers)
            .option("subscribe", "orders")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", BATCH)
            .option("kafka.isolation.level", "read_committed")
            .load()
        )
        schema = f"{SCHEMA}, _broken STRING"
        text = F.col("value").cast("string")
        parts = [f"octet_length({part}), ':', {part}" for part in PLACE]
        mark = F.expr(f"CAST(md5(concat('messages', {', '.join(parts)})) AS BINARY)")
        orders = (
            messages.select(
                F.from_json(text, schema, {"columnNameOfCorruptRecord": "_broken"}).alias("o"),
                mark.alias("mark"),
            )
            .select("o.*", "mark")
            .where("_broken IS NULL AND cents >= 100")
            .select("id", "city", (F.col("cents") / 100).alias("euros"), "mark")
        )
        header = F.struct(F.lit("mainstem-id").alias("key"), F.col("mark").alias("value"))
        out = orders.select(
            F.col("city").alias("key"),
            F.to_json(F.struct("id", "city", "euros")).alias("value"),
            F.array(header).alias("headers"),
        )

        def write(frame: DataFrame, _: int) -> None:
            (
                frame.write.format("kafka")
                .option("kafka.bootstrap.servers", self._servers)
                .option("topic", topic)
                .save()
            )

        query = (
            out.writeStream.option("checkpointLocation", str(self._folder / topic))
            .trigger(availableNow=True)
            .foreachBatch(write)
            .start()
        )
        query.awaitTermination()
        seconds = time.perf_counter() - began
        self._check(topic, keep=keep)
        return seconds

    def _fresh(self) -> str:
        self._runs += 1
        return _make(self._servers, f"out-{self._runs}")

    def _check(self, topic: str, *, keep: bool) -> None:
        """Hold the count of what came against what should have, and remove it unless it is kept."""
        admin = AdminClient({"bootstrap.servers": self._servers})
        asked = admin.list_offsets(
            {TopicPartition(topic, n): OffsetSpec.latest() for n in range(PARTITIONS)}
        )
        found = sum(future.result().offset for future in asked.values())
        expected = sum(n * 31 % 10_000 >= 100 for n in range(ROWS))
        assert found == expected, f"{found} messages came, not {expected}"
        if not keep:
            admin.delete_topics([topic])[topic].result()

    def _document(self, topic: str) -> Path:
        place = self._folder / f"document-{topic}"
        place.mkdir(parents=True, exist_ok=True)
        file = place / "orders.yaml"
        given = {"servers": self._servers, "batch": BATCH, "jars": JARS, "schema": SCHEMA}
        file.write_text(DOCUMENT.format(place=place, topic=topic, **given))
        return file


def _make(servers: str, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)])
    made[topic].result()
    return topic


def _messages(servers: str, topic: str) -> set[tuple[object, ...]]:
    """Return what is in a topic, as (key, value, headers)."""
    reader = Consumer(
        {"bootstrap.servers": servers, "group.id": "compare", "enable.partition.eof": True}
    )
    reader.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
    found: set[tuple[object, ...]] = set()
    left = PARTITIONS
    while left:
        for message in reader.consume(10_000, timeout=1):
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left -= 1
            else:
                found.add((message.key(), message.value(), *(message.headers() or ())))
    reader.close()
    return found


def _texts(values: tuple[float, ...]) -> tuple[str, ...]:
    document, hand, ratio = values
    return f"{document:,.0f}", f"{hand:,.0f}", f"{ratio:.3f}"


if __name__ == "__main__":
    main()
