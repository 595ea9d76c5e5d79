"""Sink `kinesis`: puts messages into a stream, again and again until each is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem import (
    MESSAGES,
    Batch,
    Level,
    PipelineError,
    Prepared,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    Typed,
)
from mainstem.columns import Column, check_order, check_types, find_column
from mainstem.sinks import in_partitions, write_by_tasks

from mainstem_broker_kinesis.sink.options import LARGEST_RECORD, USUAL_RECORD, KinesisSinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_KEY = ("binary", "string")
_TYPES = {"headers": ("map<string,binary>",)}
_HASH_KEY = ("string", "bigint", "int")
_SHOWN = {
    "microbatch": Shown(
        Level.AT_LEAST_ONCE, "packages/broker-kinesis/tests/test_kinesis_sink_conformance.py"
    )
}
_COPIES = {
    "kpl": "readers take aggregated records (KPL) apart, and drop copies by the tag mainstem-id",
    "raw": "readers can live with copies, which nothing tells from their originals (format: raw)",
}


class KinesisSink(Sink, Typed, Prepared):
    """Puts messages into a stream of Kinesis, each key's in order.

    At least once: a batch that is retried, or a call whose answer was lost, puts its messages again,
    with the same identity. A reader that remembers identities drops the copies.
    """

    options: KinesisSinkOptions
    accepts = MESSAGES

    def __init__(self, options: KinesisSinkOptions) -> None:
        super().__init__(options)
        self._largest: int | None = None

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]
        """The facts, of which some depend on the options."""
        return SinkCapabilities(
            needs_id=self.options.format == "kpl",
            assumptions=(
                _COPIES[self.options.format],
                "the stream's retention is longer than its readers are away",
            ),
            shown=_SHOWN,
        )

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        options = self.options
        wanted: dict[str, tuple[str, ...]] = {**_TYPES} if options.format == "kpl" else {}
        named: list[tuple[str, str, tuple[str, ...]]]
        named = [("partition_key_from", options.partition_key_from, _KEY)]
        if options.hash_key_from is not None:
            named.append(("hash_key_from", options.hash_key_from, _HASH_KEY))
        for option, column, kinds in named:
            if column != "key":
                find_column(columns, column, option)
            wanted[column.lower()] = kinds
        check_types(columns, wanted)
        if options.order == "log":
            check_order(columns, "order", "write `order: key`", key=options.partition_key_from)

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Look whether the stream is there and can be written to."""
        self._largest = self._look()

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Put a batch; return the rows that were refused for good."""
        if self._largest is None:
            self._largest = self._look(batch.sink)
        task = partial(put, options=self.options, largest=self._largest)
        options = self.options
        key = options.partition_key_from if options.order == "log" else None
        return write_by_tasks(in_partitions(frame, options.partitions, key), task)

    def _look(self, node: str | None = None) -> int:
        """Return the largest record that the stream takes.

        Raises:
            PipelineError: the stream can't be written to, or is not reached.
        """
        from botocore.exceptions import BotoCoreError, ClientError
        from mainstem_aws.client import code_of, connect, permanent, words

        options = self.options
        try:
            with closing(connect("kinesis", options)) as client:
                answer: Any = client.describe_stream_summary(**options.target())
            told = answer["StreamDescriptionSummary"]
        except (BotoCoreError, ClientError) as error:
            if code_of(error) in ("AccessDeniedException", "AccessDenied"):
                # Who may put records need not be allowed to look at the stream.
                return options.max_record or USUAL_RECORD
            why, text = permanent(error), words(error, options)
            told = f"{why} ({text})" if why else text
            raise PipelineError(f"can't write into {options.place()}: {told}", node=node) from None
        if told["StreamStatus"] == "DELETING":
            raise PipelineError(f"{options.place()} is being deleted", node=node)
        found = told.get("MaxRecordSizeInKiB")
        return options.max_record or min(found * 1024 if found else USUAL_RECORD, LARGEST_RECORD)


def put(
    batches: Iterable[pa.RecordBatch], options: KinesisSinkOptions, largest: int
) -> Iterator[pa.RecordBatch]:
    """Put the rows of a task and yield those that were refused for good; runs in an executor."""
    from mainstem import failpoint
    from mainstem.sinks import Refused
    from mainstem_aws.client import connect

    from mainstem_broker_kinesis.sink.putting import Putter
    from mainstem_broker_kinesis.sink.records import messages

    refused = Refused()
    putter: Putter | None = None
    try:
        for batch in batches:
            if putter is None:
                putter = Putter(
                    connect("kinesis", options, connections=options.requests),
                    options,
                    lambda message, why: refused.add(message.identity, message.value, why),
                    pack=options.format == "kpl",
                    ordered=options.order != "none",
                    largest=largest,
                    requests=options.requests,
                    give_up=options.give_up.total_seconds(),
                )
            for message in messages(batch, options, refused):
                putter.put(message)
            yield from refused.take()
        if putter is not None:
            putter.flush()
            failpoint("kinesis.after-flush")
        yield from refused.take()
    finally:
        if putter is not None:
            putter.close()
