"""Sink `jetstream`: publishes messages to a stream of NATS, each acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from mainstem import (
    Batch,
    IdentifiedWrites,
    Level,
    Shape,
    Shown,
    SinkCapabilities,
    TransientError,
    failpoint,
    write_duration,
)
from mainstem.columns import Column
from mainstem.patience import retry
from mainstem_egress import EgressSink, Sender

from mainstem_broker_nats.sink.messages import SubjectTemplate, check_columns
from mainstem_broker_nats.sink.options import JetStreamSinkOptions
from mainstem_broker_nats.sink.stream import ready, window_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger(__name__)

_BY = "packages/broker-nats/tests/test_nats_jetstream_sink_conformance.py"
_SHOWN = {
    "microbatch": Shown(Level.AT_LEAST_ONCE, _BY),
    "idempotent": Shown(Level.EXACTLY_ONCE, _BY),
}


class JetStreamSink(EgressSink, IdentifiedWrites):
    """Publishes messages to a stream; each carries its identity as `Nats-Msg-Id`.

    Within its duplicate window a stream drops what it has. So a batch that is retried doubles
    nothing as long as the window lasts (`deliver: idempotent`); after that it is there twice.
    """

    options: JetStreamSinkOptions

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]
        """The facts, of which some depend on the options."""
        within = self.options.duplicates_within
        if within is None:
            window = (
                "the stream's duplicate window (2 minutes unless the stream was made with another; "
                "which it is can be known only when it runs: its log tells)"
            )
        else:
            window = (
                f"{write_duration(within)}, which the stream's duplicate window is compared with when "
                "the run starts"
            )
        tried = (
            f"a batch that was cut is retried within {window}, and so is a message whose answer was "
            "lost (`give_up` may be longer); what was written longer ago is written again, and so is "
            "what a rollback or a replay writes that late"
        )
        if self.options.expectation() is not None:
            tried += (
                "; a row with an expected sequence is not, but is refused although it was written if the "
                "stream no longer has it (a limit for each subject, such as max_msgs_per_subject: 1)"
            )
        forgotten = (
            "what a cut batch wrote is still in the stream if its server restarts before the batch is "
            "retried: with messages that were taken from a work queue, or removed, their ids are "
            "forgotten then"
        )
        return SinkCapabilities(
            needs_id=True,
            assumptions=(self._kept(),),
            assumptions_by={"idempotent": (tried, forgotten)},
            shown=_SHOWN,
        )

    def _kept(self) -> str:
        """Return what must hold for an acknowledged message to stay."""
        create = self.options.create
        if create is not None and create.storage == "memory":
            return "the stream's servers do not all stop (create.storage: memory)"
        return (
            "the stream keeps what it has acknowledged: a server syncs its disk every two minutes only "
            "(`sync_interval`), so that loss of power is survived by replicas elsewhere alone"
        )

    def sender(self) -> type[Sender]:
        from mainstem_broker_nats.sink.jetstream_sender import JetStreamSender

        return JetStreamSender

    def lane(self) -> str:
        """The messages of a subject have an order."""
        return SubjectTemplate(self.options.subject).sql()

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        super().check_types(columns, shape)
        check_columns(columns, SubjectTemplate(self.options.subject), self.options.expectation())

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Make sure that the stream is there and takes what will come."""
        from mainstem_broker_nats.client import Connection

        options = self.options
        with Connection.open(options, f"mainstem {options.stream}") as connection:
            config = ready(
                connection,
                options.stream,
                create=options.create,
                window=options.duplicates_within,
                subject=SubjectTemplate(options.subject).constant,
            )
        _LOG.info(
            "stream %s knows its messages for %s (its duplicate window)",
            options.stream,
            write_duration(window_of(config)),
        )

    def write_new(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """As `write`, by a run that has not been replaced: the stream drops what it knows.

        Raises:
            FencedError: a newer run of the checkpoint has written.
        """
        options = self.options
        since, window = self._entered(batch)
        if since is not None and since > window:
            _LOG.warning(
                "%s: batch %d was first written %s ago, and stream %s knows its messages for %s: what "
                "of it was there by then may be there twice",
                batch.sink,
                batch.id,
                write_duration(since),
                options.stream,
                write_duration(window),
            )
        return self.write(frame, batch)

    def _entered(self, batch: Batch) -> tuple[timedelta | None, timedelta]:
        """Note a batch; return how long ago it was noted first, and the stream's window."""
        from mainstem_broker_nats.client import Connection
        from mainstem_broker_nats.sink.ledger import Ledger

        options = self.options
        name = f"mainstem {batch.pipeline} {batch.sink}"

        def enter(tries: int) -> tuple[timedelta | None, timedelta]:
            with Connection.open(options, name, tries) as connection:
                config = connection.ask(f"STREAM.INFO.{options.stream}")["config"]
                failpoint("jetstream.before-ledger")
                replicas = int(config.get("num_replicas") or 1)
                ledger = Ledger(connection, options.ledger, options.stream, replicas)
                since = ledger.enter(batch)
                failpoint("jetstream.after-ledger")
                return since, window_of(config)

        def log(error: TransientError) -> None:
            _LOG.warning("%s: the ledger can't be asked: %s", batch.sink, error)

        return retry(enter, options.give_up.total_seconds(), log)
