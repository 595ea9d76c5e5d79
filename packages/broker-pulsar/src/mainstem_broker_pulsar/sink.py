"""Sink `pulsar`: sends messages to a topic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from mainstem import (
    COMMIT_VERSION,
    Batch,
    Level,
    NumberedWrites,
    Shape,
    Shown,
    SinkCapabilities,
    failpoint,
)
from mainstem.columns import Column, check_types
from mainstem.sinks import numbered, write_by_tasks
from mainstem_egress import EgressSink, Sender, send

from mainstem_broker_pulsar.options import PulsarOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TEXT = ("binary", "string")
_TYPES = {
    "key": _TEXT,
    "value": _TEXT,
    "headers": ("map<string,binary>",),
    "event_time": ("timestamp",),
    "deliver_at": ("timestamp",),
}
_SHOWN = "packages/broker-pulsar/tests/test_pulsar_sink_conformance.py"
_FORGOTTEN = (
    "a batch that was cut is retried before brokers forget its producers (6 hours, by "
    "brokerDeduplicationProducerInactivityTimeoutMinutes)"
)


class PulsarSink(EgressSink, NumberedWrites):
    """Sends messages to a topic; each carries its identity as the property `mainstem-id`.

    The broker knows messages of a producer by their numbers, for as long as it remembers the producer. So
    a batch that is retried doubles nothing (`deliver: numbered`); otherwise it is sent again.
    """

    options: PulsarOptions
    capabilities = SinkCapabilities(
        needs_id=True,
        uses=(COMMIT_VERSION,),
        assumptions=("the brokers keep what they have acknowledged until readers have it",),
        assumptions_by={
            "numbered": (
                "deduplication is on for the topic, as it is seen to be for its ledger",
                _FORGOTTEN,
                "a topic gets no partitions, and `producers` does not change, while a batch is cut",
            )
        },
        shown={
            "microbatch": Shown(Level.AT_LEAST_ONCE, _SHOWN),
            "numbered": Shown(Level.EXACTLY_ONCE, _SHOWN),
        },
    )

    def sender(self) -> type[Sender]:
        from mainstem_broker_pulsar.sender import PulsarSender

        return PulsarSender

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say."""
        super().check_types(columns, shape)
        check_types(columns, _TYPES)

    def unnumbered(self) -> str:
        if not self.options.chunks:
            return ""
        return (
            "`chunks: true`: numbers are of messages that go whole, for brokers drop parts by them"
        )

    def write_numbered(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """As `write`, by producers whose messages have numbers, by a run that has not been replaced.

        Raises:
            FencedError: a newer run of the checkpoint has written, or rows of a later batch are there.
            PermanentError: deduplication is off.
        """
        from mainstem_broker_pulsar.ledger import enter
        from mainstem_broker_pulsar.sender import NumberedSender

        options = self.options
        enter(options, batch)
        failpoint("pulsar.after-ledger")
        given = numbered(frame, batch.id, options.producers, "key")
        task = partial(
            send,
            sender=partial(NumberedSender, producers=f"{batch.sink}-{batch.query_id}"),
            options=options.model_copy(update={"order": "key"}),
            name=f"mainstem {batch.pipeline} {batch.sink}",
        )
        return write_by_tasks(given, task)
