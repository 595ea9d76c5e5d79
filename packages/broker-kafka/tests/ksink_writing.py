"""How the tests of the sink write: batches as the core makes them, into topics of their own."""

from __future__ import annotations

import hashlib
import uuid

from ksink_reading import make_topic, read_topic
from mainstem import Batch, Events
from mainstem.sinks import Refused
from mainstem_broker_kafka.sink.ledger import FIRST, Entry
from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.rows import messages
from mainstem_broker_kafka.sink.sink import KafkaSink
from mainstem_broker_kafka.sink.transactional import deal
from mainstem_broker_kafka.sink.writer import Share

DDL = "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, origin STRING"
SHAPE = Events(DDL)


class Place:
    """A topic of a test's own, the checkpoint that is written from, and a ledger.

    Args:
        server: the node.
        spark: the session.
        partitions: of the topic, which is not made if there are none.
        config: the topic's settings.
    """

    def __init__(self, server, spark, partitions=3, **config):
        self.server = server
        self.spark = spark
        self.name = f"s-{uuid.uuid4().hex[:12]}"
        self.query_id = str(uuid.uuid4())
        if partitions:
            settings = {key.replace("_", "."): str(value) for key, value in config.items()}
            make_topic(server, self.name, partitions, settings)

    def options(self, **changes):
        given = {
            "servers": self.server.url,
            "topic": self.name,
            "ledger": f"{self.name}-ledger",
            "give_up": "20 seconds",
            **changes,
        }
        return KafkaSinkOptions.model_validate(given)

    def sink(self, **changes):
        """Return a sink made anew, as a new run has it."""
        return KafkaSink(self.options(**changes))

    def batch(self, number=0, epoch=1, begins=0, run=None, retried=True):
        """Return a batch; each epoch is a run of its own, unless told else."""
        return Batch(
            number, "test", "query", self.query_id, "out", self.spark, SHAPE, epoch, begins,
            run=run or f"run {epoch}", retried=retried,
        )  # fmt: skip

    @property
    def group(self):
        return f"mainstem.test.out.{self.query_id}"

    def frame(self, rows, parts=2):
        """Return messages: mappings, of which `value` is the least; columns left out are null."""
        names = ["key", "value", "headers", "timestamp", "origin"]
        made = [(*(row.get(name) for name in names), identity(row)) for row in rows]
        given = self.spark.sparkContext.parallelize(made, parts)
        return self.spark.createDataFrame(given, f"{DDL}, _id BINARY")

    def write(
        self, rows, number=0, epoch=1, *, sink=None, parts=2, begins=0, run=None, retried=True,
        **changes,
    ):  # fmt: skip
        """Write a batch by `transactional`; return why rows were refused, by their values."""
        made = sink or self.sink(**changes)
        batch = self.batch(number, epoch, begins, run, retried)
        return told(made.write_once(self.frame(rows, parts), batch))

    def share(self, rows, writer, number=0, epoch=1, *, sink=None, run=None):
        """Begin what a task does for one writer, in this process: rows are sent and not committed.

        For a run that is cut in the middle, or replaced while it writes.
        """
        made = sink or self.sink()
        work, batch = made._transactions, self.batch(number, epoch, run=run)
        ledger = work._ledger(batch)
        _, state = work._take_hold(ledger, batch)
        topics = made._topics.known()
        job = work._job(ledger, state, batch, topics)
        dealt = deal(messages(self.frame(rows), made.options, topics, timed=True), job.writers)
        share = Share(job, writer, Refused())
        for each in dealt.where(f"_writer = {writer}").toArrow().to_batches():
            share.take(each)
        return share

    @staticmethod
    def batch_entry(share):
        """Return the ledger's entry that a writer is to set for its batch."""
        job = share._job
        entry = Entry(job.batch + 1, job.epoch, job.run, job.writers, share._given)
        return job.place.offset(FIRST + share.writer, entry)

    def state(self):
        """Return what the ledger has."""
        return self.sink()._transactions._ledger(self.batch()).read()

    def read(self, **how):
        return read_topic(self.server, self.name, **how)

    def values(self, **how):
        return sorted(message.value for message in self.read(**how))


def identity(row):
    return hashlib.md5(repr(sorted(row.items(), key=str)).encode()).digest()


def told(refused):
    return {row["payload"]: row["reason"] for row in refused.collect()} if refused else {}


def numbered(*numbers):
    """Return messages, each with a key of its own."""
    return [{"key": b"k%d" % n, "value": b"v%d" % n} for n in numbers]


def values_of(*numbers):
    return sorted(b"v%d" % n for n in numbers)
