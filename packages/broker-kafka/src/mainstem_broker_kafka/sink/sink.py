"""Sink `kafka`: writes messages to topics of Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mainstem import (
    COMMIT_VERSION,
    MESSAGES,
    Batch,
    Dataset,
    Level,
    Located,
    Needs,
    PipelineError,
    Prepared,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    Transactional,
    Typed,
    failpoint,
)
from mainstem.columns import Column
from mainstem.sinks import write_by_relation

from mainstem_broker_kafka.connection import spark_options
from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.rows import ID_HEADER, by_version, messages
from mainstem_broker_kafka.sink.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem_broker_kafka.sink.topics import Topics
    from mainstem_broker_kafka.sink.transactional import Transactions

#: The memory of a client in Java, in bytes, if nobody says else.
_MEMORY = 32 * 2**20
_HASH = "CASE WHEN _reason IS NOT NULL THEN xxhash64(_id, key, value, _reason) END"
_REFUSED = ("count(_reason) AS rows", f"bit_xor({_HASH}) AS hash")


def write_at_least_once(
    frame: DataFrame, options: KafkaSinkOptions, topics: Mapping[str, Topic]
) -> DataFrame | None:
    """Write a batch; return the rows that were refused.

    Raises:
        PipelineError: the rows that were refused are others when the batch is evaluated once more.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    rows = by_version(messages(frame, options, topics, timed=False))
    columns = ["key", "value", f"{_headers(frame)} AS headers"]
    if options.topic_from is not None:
        columns.append("_topic AS topic")
    if options.partition_from is not None:
        columns.append("_partition AS partition")
    largest = max((topic.max_bytes for topic in topics.values()), default=0)
    settings = {
        # The checks above are stricter than the client's, which is to refuse nothing that they let pass.
        "kafka.max.request.size": str(max(largest + 1024, 1_048_576)),
        # A message that does not fit into the client's memory is refused too.
        "kafka.buffer.memory": str(max(_MEMORY, 2 * largest)),
        "kafka.compression.type": options.compression,
        **spark_options(options),
        "includeHeaders": "true",
    }
    if options.topic_from is None and options.topic is not None:
        settings["topic"] = options.topic
    refused = Observation()
    good = rows.observe(refused, *map(F.expr, _REFUSED)).where("_reason IS NULL")
    failpoint("kafka.before-write")
    write_by_relation(good.selectExpr(*columns), "kafka", settings)
    failpoint("kafka.after-write")
    found = refused.get
    if not found["rows"]:
        return None
    # Nearly no batch has any, so those are worth a second look, and not each batch a copy.
    bad = rows.where("_reason IS NOT NULL").localCheckpoint(eager=True)
    again = bad.selectExpr(*_REFUSED).first()
    if again is None or again.asDict() != found:
        raise PipelineError(
            f"{found['rows']} rows were refused, and others when the batch was evaluated once more: a "
            "step above gives other rows each time. Let it depend on the rows alone, not on chance or "
            "the time of day."
        )
    return bad.selectExpr("_reason AS reason", "value AS payload", "_id")


def _headers(frame: DataFrame) -> str:
    """Return SQL for a message's headers, its identity among them, as Spark's writer takes them."""
    mark = f"named_struct('key', '{ID_HEADER}', 'value', CAST(lower(hex(_id)) AS BINARY))"
    own = f"CASE WHEN _id IS NOT NULL THEN array({mark}) END"
    if "headers" not in (name.lower() for name in frame.columns):
        return own
    entries = "map_entries(headers)"
    others = f"filter({entries}, entry -> entry.key != '{ID_HEADER}')"
    others = f"IF(map_contains_key(headers, '{ID_HEADER}'), {others}, {entries})"
    given = f"coalesce(concat({others}, {own}), {entries})"
    return f"CASE WHEN headers IS NULL OR size(headers) = 0 THEN {own} ELSE {given} END"


_CONFORMANCE = "packages/broker-kafka/tests/test_kafka_sink_conformance.py"
_REMEMBERED = (
    "a run that ended in the middle of a batch goes on before the brokers forget offsets and "
    "transactional ids (offsets.retention.minutes, transactional.id.expiration.ms: 7 days if left "
    "alone); in such a batch a ledger found missing ends the run, but for the sink's first batch, of "
    "which nobody can tell it from a ledger that was never begun"
)
_CAPABILITIES = SinkCapabilities(
    needs_id=True,
    uses=(COMMIT_VERSION,),
    assumptions=(
        "the topics keep what they acknowledge (more than one replica in sync if a disk can fail)",
    ),
    assumptions_by={
        "transactional": (
            "readers read committed messages alone (isolation.level=read_committed)",
            _REMEMBERED,
            "nobody else sets or deletes the offsets of the ledger's group, or deletes its topic",
        )
    },
    shown={
        "transactional": Shown(Level.EXACTLY_ONCE, _CONFORMANCE),
        "microbatch": Shown(Level.AT_LEAST_ONCE, _CONFORMANCE),
    },
)


class KafkaSink(Sink, Typed, Prepared, Transactional, Located):
    """Writes messages to topics; each carries its identity in the header `mainstem-id`.

    By `transactional` each message is there once for readers of committed messages, and a key keeps its
    order. By `microbatch` a batch that is retried is written again, with the same identities; of a
    changelog a key's newest version still comes last.
    """

    options: KafkaSinkOptions
    accepts = MESSAGES
    capabilities = _CAPABILITIES

    def datasets(self, output: str) -> Sequence[Dataset]:
        named = [self.options.topic] if self.options.topic else []
        return [self.options.dataset(topic) for topic in [*named, *self.options.topics]]

    def needs(self) -> Needs:
        from mainstem_broker_kafka import jars

        return jars.needs(self.options)

    @cached_property
    def _topics(self) -> Topics:
        from mainstem_broker_kafka.sink.topics import Topics

        return Topics(self.options)

    @cached_property
    def _transactions(self) -> Transactions:
        from mainstem_broker_kafka.sink.transactional import Transactions

        return Transactions(self.options, self._topics)

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        from mainstem_broker_kafka.sink.rows import check_columns

        check_columns(columns, self.options)

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Make the topics, or hold those that are there against the options."""
        self._topics.prepare()

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        return write_at_least_once(frame, self.options, self._topics.known())

    # -- Transactional ----------------------------------------------------------------------

    def committed(self, batch: Batch) -> bool:
        """Whether the ledger says that all writers' transactions of a batch are in."""
        return self._transactions.committed(batch)

    def write_once(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write a batch by one transaction for each writer that has rows and is not in yet."""
        return self._transactions.write(frame, batch)
