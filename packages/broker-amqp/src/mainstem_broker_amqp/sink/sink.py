"""Sink `amqp`: publishes messages to an exchange of RabbitMQ, each confirmed by the broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from mainstem import (
    MESSAGES,
    Batch,
    Column,
    Level,
    Options,
    PipelineError,
    PositiveDuration,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    check_order,
    check_types,
    find_column,
    in_partitions,
    option,
    write_by_tasks,
)
from pydantic import model_validator

from mainstem_broker_amqp.connecting import ConnectionOptions, parameters

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_TYPES = {"headers": ("map<string,binary>",), "timestamp": ("timestamp",)}
_TEXT = ("binary", "string")


class DeclareOptions(Options):
    """Options of `declare`."""

    type: str = option(
        "direct",
        min_length=1,
        description="`direct`, `fanout`, `topic`, `headers`, or a type that a plugin of the broker adds.",
    )
    durable: bool = option(True, description="Whether the exchange outlives the broker's restart.")
    auto_delete: bool = option(
        False, description="Whether the exchange goes when its last binding does."
    )
    arguments: dict[str, str | int | float | bool] = option(
        dict, description="Further arguments, such as `alternate-exchange`."
    )


class AMQPSinkOptions(ConnectionOptions):
    """Options of the sink `amqp`."""

    exchange: str = option(
        "",
        max_length=127,
        description="Where to publish. Left out, it is the default exchange, whose routing keys are "
        "names of queues.",
        example="orders",
    )
    declare: DeclareOptions | None = option(
        None,
        description="Make the exchange if it is not there. Left out, it must be there before the first "
        "batch.",
    )
    routing_key: str | None = option(
        None, max_length=255, description="The routing key of all messages.", example="orders"
    )
    routing_key_from: str = option(
        "key",
        min_length=1,
        description="The column that holds each message's routing key, text or UTF-8 in bytes, when "
        "`routing_key` is left out.",
    )
    mandatory: bool = option(
        True,
        description="Whether a message that no queue is bound for is refused; if not, the broker drops "
        "it and nobody knows.",
    )
    persistent: bool = option(
        True,
        description="Whether messages outlive the broker's restart in durable queues. If not, what the "
        "header `amqp.delivery_mode` says holds, and without it they are transient.",
    )
    order: Literal["key", "log"] = option(
        "key",
        description="`key`: a task's messages of a key are published in their order. `log`: also bring "
        "each key's messages together first, in the order of their log (columns origin, partition, "
        "position), which costs a shuffle.",
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
        description="How many messages of a connection wait for the broker's confirm at a time.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to try on without any progress before the batch fails.",
    )

    @model_validator(mode="after")
    def _fitting(self) -> AMQPSinkOptions:
        if self.declare is not None and not self.exchange:
            raise ValueError("declare is there, but no exchange: the default one is always there")
        return self


_SHOWN = {
    "microbatch": Shown(Level.AT_LEAST_ONCE, "packages/broker-amqp/tests/test_sink_conformance.py")
}


class AMQPSink(Sink):
    """Publishes messages to RabbitMQ with confirms; each carries its identity as message id.

    At least once: a batch that is tried again, or a message whose confirm was lost, is published again,
    with the same message id. A reader that remembers ids drops the copies.
    """

    options: AMQPSinkOptions
    accepts = MESSAGES

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]
        """The facts, of which some depend on the options."""
        assumptions = ["the queues are durable, and replicated if the broker's disks can fail"]
        if not self.options.mandatory:
            assumptions.append("a queue is bound for each message (mandatory: false)")
        if not self.options.persistent:
            assumptions.append(
                "the broker keeps running until messages are read (persistent: false)"
            )
        return SinkCapabilities(needs_id=True, assumptions=tuple(assumptions), shown=_SHOWN)

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        options = self.options
        wanted = {**_TYPES, "key": _TEXT}
        if options.routing_key is None:
            hint = "Give one for all messages: routing_key."
            find_column(columns, options.routing_key_from, "routing_key_from", hint=hint)
            wanted[options.routing_key_from.lower()] = _TEXT
        check_types(columns, wanted)
        if options.order == "log":
            check_order(columns, "order", "leave out `order`")

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Publish a batch; return the rows that were refused for good."""
        name = f"mainstem {batch.pipeline} {batch.sink}"
        task = partial(publish, options=self.options, name=name)
        key = "key" if self.options.order == "log" else None
        return write_by_tasks(in_partitions(frame, self.options.partitions, key), task)

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Reach the exchange from here, so that what can't be mended is said once and plainly.

        Raises:
            PipelineError: it can't be reached, or is not there.
        """
        from mainstem_broker_amqp.sink.publisher import PublishError

        try:
            publisher = make_publisher(self.options, "mainstem", lambda *_: None)
            try:
                publisher.connect()
            finally:
                publisher.close()
        except (PublishError, OSError) as error:
            raise PipelineError(str(error)) from None


def make_publisher(options: AMQPSinkOptions, name: str, refused: Any) -> Any:
    """Return a `Publisher` as the options say.

    Raises:
        OSError: a file of `tls` can't be read.
    """
    from mainstem_broker_amqp.sink.link import Exchange
    from mainstem_broker_amqp.sink.publisher import Publisher

    declared = None
    if options.declare is not None:
        declared = {
            "exchange_type": options.declare.type,
            "durable": options.declare.durable,
            "auto_delete": options.declare.auto_delete,
            "arguments": dict(options.declare.arguments) or None,
        }
    return Publisher(
        parameters(options, name),
        refused,
        exchange=Exchange(options.exchange, declared),
        mandatory=options.mandatory,
        window=options.window,
        give_up=options.give_up.total_seconds(),
    )


def publish(
    batches: Iterable[pa.RecordBatch], options: AMQPSinkOptions, name: str
) -> Iterator[pa.RecordBatch]:
    """Publish the rows of a task and yield those that were refused for good; runs in an executor."""
    from mainstem import Refused, failpoint

    from mainstem_broker_amqp.sink.writing import messages

    refused = Refused()
    publisher = make_publisher(
        options, name, lambda message, why: refused.add(message.token, message.body, why)
    )
    try:
        for batch in batches:
            failpoint("amqp.before-publish")
            for message in messages(batch, options, refused):
                publisher.send(message)
            yield from refused.take()
        failpoint("amqp.after-publish")
        publisher.flush()
        failpoint("amqp.after-confirm")
        yield from refused.take()
    finally:
        publisher.close()
