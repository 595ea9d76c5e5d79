"""Sink `kafka`: writes messages to topics of Apache Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mainstem import (
    COMMIT_VERSION,
    MESSAGES,
    Batch,
    Level,
    Needs,
    Prepared,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    Transactional,
    Typed,
)
from mainstem.columns import Column

from mainstem_broker_kafka.sink.options import KafkaSinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem_broker_kafka.sink.topics import Topics
    from mainstem_broker_kafka.sink.transactional import Transactions

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


class KafkaSink(Sink, Typed, Prepared, Transactional):
    """Writes messages to topics; each carries its identity in the header `mainstem-id`.

    By `transactional` each message is there once for readers of committed messages, and a key keeps its
    order. By `microbatch` a batch that is retried is written again, with the same identities; of a
    changelog a key's newest version still comes last.
    """

    options: KafkaSinkOptions
    accepts = MESSAGES
    capabilities = _CAPABILITIES

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
        from mainstem_broker_kafka.sink import microbatch

        return microbatch.write(frame, self.options, self._topics.known())

    # -- Transactional ----------------------------------------------------------------------

    def committed(self, batch: Batch) -> bool:
        """Whether the ledger says that all writers' transactions of a batch are in."""
        return self._transactions.committed(batch)

    def write_once(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write a batch by one transaction for each writer that has rows and is not in yet."""
        return self._transactions.write(frame, batch)
