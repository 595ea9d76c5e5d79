"""Sink `jetstream`: publishes messages to a stream of NATS, each acknowledged."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from mainstem import (
    MESSAGES,
    Batch,
    Column,
    Level,
    Patience,
    PositiveDuration,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    check_order,
    failpoint,
    in_partitions,
    option,
    quoted,
    write_by_tasks,
    write_duration,
)
from pydantic import field_validator, model_validator

from mainstem_broker_nats.connecting import ConnectionOptions, NATSError
from mainstem_broker_nats.sink.messages import OWN, Layout, check_columns
from mainstem_broker_nats.sink.stream import CreateOptions, ready, window_of
from mainstem_broker_nats.sink.subjects import Template

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem_broker_nats.sink.publisher import Publisher

_LOG = logging.getLogger(__name__)

_EXPECT = {
    "expect_sequence": "Nats-Expected-Last-Sequence",
    "expect_subject_sequence": "Nats-Expected-Last-Subject-Sequence",
}
_BY = "packages/broker-nats/tests/test_nats_jetstream_sink_conformance.py"
_SHOWN = {
    "microbatch": Shown(Level.AT_LEAST_ONCE, _BY),
    "idempotent": Shown(Level.EXACTLY_ONCE, _BY),
}


class JetStreamSinkOptions(ConnectionOptions):
    """Options of the sink `jetstream`."""

    stream: str = option(
        pattern=r"^[^\s.*>/\\\x00-\x1f]+$",
        description="The stream that takes the messages. It must be there, unless `create` is.",
        example="ORDERS",
    )
    subject: str = option(
        min_length=1,
        description="Each message's subject. Names of columns in braces stand for what the columns "
        "hold, text or UTF-8 in bytes.",
        example="orders.{key}",
    )
    create: CreateOptions | None = option(
        None,
        description="Make the stream if it is not there; one that is there must be as this says.",
    )
    duplicates_within: PositiveDuration | None = option(
        None,
        description="For how long the stream must know the ids of its messages (its duplicate window), "
        "so that a batch that is tried again within that time doubles nothing. A stream whose window is "
        "shorter is refused; one that is made gets it. Left out, the window is as it is: 2 minutes "
        "unless somebody said otherwise.",
        example="1 hour",
    )
    order: Literal["none", "log"] = option(
        "none",
        description="`none`: a task's messages are published in their order, but one that a stream "
        "refuses for a while comes after later ones. `log`: bring each subject's messages together "
        "first, in the order of their log (columns origin, partition, position), and publish each only "
        "when the one before it is acknowledged; it costs a shuffle, and a round trip for each message "
        "of a subject.",
    )
    expect_sequence: str | None = option(
        None,
        min_length=1,
        description="The column with the sequence that must be the stream's last when the message "
        "comes; else the message is refused. Null expects nothing.",
    )
    expect_subject_sequence: str | None = option(
        None,
        min_length=1,
        description="The column with the sequence that must be the last of the message's subject (0: "
        "there is none); else the message is refused. Null expects nothing.",
        example="version",
    )
    directives: tuple[str, ...] = option(
        (),
        advanced=True,
        description="Which of a row's headers that begin with `Nats-` are sent on. They tell the server "
        "what to do (`Nats-TTL`, `Nats-Rollup`); those that are not named here are left out.",
        example=["Nats-TTL"],
    )
    partitions: int | None = option(
        None,
        gt=0,
        description="How many connections publish in parallel at most; as many as the batch has "
        "partitions when left out.",
    )
    window: int = option(
        1000,
        gt=0,
        le=100_000,
        advanced=True,
        description="How many messages of a connection wait for their acknowledgement at a time.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to try on without any progress before the batch fails.",
    )
    ledger: str = option(
        "mainstem",
        pattern=r"^[-_A-Za-z0-9]+$",
        advanced=True,
        description="The key-value bucket in which `deliver: idempotent` notes which run writes, so "
        "that one that was replaced writes nothing more. It is made when it is not there.",
    )

    @field_validator("subject")
    @classmethod
    def _is_template(cls, value: str) -> str:
        Template(value)
        return value

    @field_validator("directives")
    @classmethod
    def _are_directives(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not name.lower().startswith("nats-"):
                raise ValueError(f"{name} is no directive: those begin with Nats-")
            if OWN.fullmatch(name):
                raise ValueError(f"{name} is the sink's own")
        return value

    @model_validator(mode="after")
    def _fitting(self) -> JetStreamSinkOptions:
        if self.expect_sequence and self.expect_subject_sequence:
            raise ValueError("expected one of expect_sequence and expect_subject_sequence")
        create, within = self.create, self.duplicates_within
        if create and within and create.max_age is not None and create.max_age < within:
            raise ValueError("duplicates_within is longer than create.max_age keeps messages")
        return self

    def expectation(self) -> tuple[str, str] | None:
        """Return the option that names a column of expected sequences, and that column."""
        given = ((name, getattr(self, name)) for name in _EXPECT)
        return next(((name, column) for name, column in given if column is not None), None)


class JetStreamSink(Sink):
    """Publishes messages to a stream; each carries its identity as `Nats-Msg-Id`.

    Within its duplicate window a stream drops what it has. So a batch that is tried again doubles
    nothing as long as the window lasts (`deliver: idempotent`); after that it is there twice.
    """

    options: JetStreamSinkOptions
    accepts = MESSAGES

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
                f"{write_duration(within)}, which the stream's duplicate window is held against when "
                "the run starts"
            )
        tried = (
            f"a batch that was cut is tried again within {window}, and so is a message whose answer was "
            "lost (`give_up` may be longer); what was written longer ago is written again, and so is "
            "what a rollback or a replay writes that late"
        )
        if self.options.expectation() is not None:
            tried += (
                "; a row with an expected sequence is not, but is refused although it was written if the "
                "stream no longer has it (a limit for each subject, such as max_msgs_per_subject: 1)"
            )
        forgotten = (
            "what a cut batch wrote is still in the stream if its server starts anew before the batch is "
            "tried again: with messages that were taken from a work queue, or removed, their ids are "
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

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        check_columns(columns, Template(self.options.subject), self.options.expectation())
        if self.options.order == "log":
            check_order(columns, "order", "leave out `order`", whose="a subject's", key=None)

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
                subject=Template(options.subject).constant,
            )
        _LOG.info(
            "stream %s knows its messages for %s (its duplicate window)",
            options.stream,
            write_duration(window_of(config)),
        )

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Publish a batch; return the rows that were refused for good."""
        options = self.options
        task = partial(
            publish,
            options=options,
            layout=self._layout(batch),
            name=f"mainstem {batch.pipeline} {batch.sink}",
        )
        subject = None
        if options.order == "log":
            from pyspark.sql.functions import expr

            template = Template(options.subject)
            subject = expr(template.sql(map(quoted, template.columns)))
        return write_by_tasks(in_partitions(frame, options.partitions, subject), task)

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
        patience = Patience(options.give_up.total_seconds())
        while True:
            try:
                name = f"mainstem {batch.pipeline} {batch.sink}"
                with Connection.open(options, name, patience.tries) as connection:
                    config = connection.ask(f"STREAM.INFO.{options.stream}")["config"]
                    failpoint("jetstream.before-ledger")
                    replicas = int(config.get("num_replicas") or 1)
                    ledger = Ledger(connection, options.ledger, options.stream, replicas)
                    since = ledger.enter(batch)
                    failpoint("jetstream.after-ledger")
                    return since, window_of(config)
            except NATSError as error:
                pause = patience.pause()
                if error.lasting or pause > patience.left():
                    raise
                _LOG.warning("%s: the ledger can't be asked: %s", batch.sink, error)
                time.sleep(pause)

    def _layout(self, batch: Batch) -> Layout:
        options = self.options
        # Two sinks may write the same row into one stream, under two subjects, and neither is a copy.
        place = f"{batch.pipeline}/{batch.sink}".encode()
        expect = options.expectation()
        return Layout(
            subject=options.subject,
            stream=options.stream,
            suffix="-" + hashlib.sha256(place).hexdigest()[:8],
            directives=frozenset(name.lower() for name in options.directives),
            expect=(_EXPECT[expect[0]], expect[1]) if expect else None,
        )


def make_publisher(options: JetStreamSinkOptions, name: str, refused: Any) -> Publisher:
    """Return a `Publisher` as the options say."""
    from mainstem_broker_nats.sink.publisher import Publisher

    return Publisher(
        options,
        name,
        options.stream,
        refused,
        window=options.window,
        give_up=options.give_up.total_seconds(),
        ordered=options.order == "log",
        expect="stream" if options.expect_sequence else "subject",
    )


def publish(
    batches: Iterable[pa.RecordBatch], options: JetStreamSinkOptions, layout: Layout, name: str
) -> Iterator[pa.RecordBatch]:
    """Publish the rows of a task and yield those that were refused for good; runs in an executor."""
    from mainstem import Refused

    from mainstem_broker_nats.sink.messages import messages

    refused = Refused()
    template = Template(layout.subject)
    publisher = make_publisher(
        options, name, lambda message, why: refused.add(message.identity, message.body, why)
    )
    try:
        for batch in batches:
            failpoint("jetstream.before-publish")
            for message in messages(batch, layout, template, refused):
                publisher.send(message)
            yield from refused.take()
        failpoint("jetstream.after-publish")
        publisher.flush()
        failpoint("jetstream.after-acknowledge")
        yield from refused.take()
    finally:
        publisher.close()
