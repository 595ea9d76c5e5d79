"""Sink `nats`: publishes messages to core NATS, which keeps nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from mainstem import (
    MESSAGES,
    Batch,
    Column,
    Level,
    PositiveDuration,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    failpoint,
    in_partitions,
    option,
    write_by_tasks,
)
from pydantic import field_validator

from mainstem_broker_nats.connecting import ConnectionOptions
from mainstem_broker_nats.sink.messages import Layout, check_columns
from mainstem_broker_nats.sink.subjects import Template

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_SHOWN = {
    "microbatch": Shown(Level.NONE, "packages/broker-nats/tests/test_nats_core_sink_conformance.py")
}


class NATSSinkOptions(ConnectionOptions):
    """Options of the sink `nats`."""

    subject: str = option(
        min_length=1,
        description="Each message's subject. Names of columns in braces stand for what the columns "
        "hold, text or UTF-8 in bytes.",
        example="prices.{key}",
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
        description="How many messages are published before the server is asked whether it has them.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to try on without any progress before the batch fails.",
    )

    @field_validator("subject")
    @classmethod
    def _is_template(cls, value: str) -> str:
        Template(value)
        return value


class NATSSink(Sink):
    """Publishes messages to whoever listens when they come.

    The server has each message when a batch ends; it keeps none. Who is not there, or too slow, misses
    messages, and nobody knows. For what must arrive there is the sink `jetstream`.
    """

    options: NATSSinkOptions
    accepts = MESSAGES
    capabilities = SinkCapabilities(
        lossy=True,
        why="core NATS keeps nothing: who does not listen when a message comes, or reads too slowly, "
        "misses it",
        shown=_SHOWN,
    )

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        check_columns(columns, Template(self.options.subject))

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Look whether the server lets us in."""
        from mainstem_broker_nats.client import Connection

        Connection.open(self.options, "mainstem").close()

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Publish a batch; return the rows that make no message."""
        options = self.options
        name = f"mainstem {batch.pipeline} {batch.sink}"
        task = partial(publish, options=options, name=name)
        return write_by_tasks(in_partitions(frame, options.partitions), task)


def publish(
    batches: Iterable[pa.RecordBatch], options: NATSSinkOptions, name: str
) -> Iterator[pa.RecordBatch]:
    """Publish the rows of a task and yield those that make no message; runs in an executor."""
    from mainstem import Refused

    from mainstem_broker_nats.sink.flushing import FlushingPublisher
    from mainstem_broker_nats.sink.messages import messages

    refused = Refused()
    template = Template(options.subject)
    publisher = FlushingPublisher(
        options,
        name,
        lambda message, why: refused.add(message.identity, message.body, why),
        window=options.window,
        give_up=options.give_up.total_seconds(),
    )
    try:
        for batch in batches:
            failpoint("nats.before-publish")
            for message in messages(batch, Layout(options.subject), template, refused):
                publisher.send(message)
            yield from refused.take()
        publisher.flush()
        failpoint("nats.after-flush")
        yield from refused.take()
    finally:
        publisher.close()
