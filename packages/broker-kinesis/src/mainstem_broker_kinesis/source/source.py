"""Source `kinesis`: a stream, read ahead into the ingress log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mainstem import (
    LOST,
    Events,
    Inputs,
    Lag,
    Level,
    OptionError,
    Reached,
    Shape,
    Shown,
    SourceCapabilities,
    SourceContext,
    write_duration,
)
from mainstem.columns import read_columns
from mainstem_ingress import IngressSource, Receiver, split_lost

from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.records import LOST as HEADER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem_broker_kinesis.source.lag import Measuring

#: What the output `lost` is: `from` and `to` are sequence numbers of the shard `partition`.
LOST_RECORDS = Events(
    [*LOST.columns, *read_columns("origin STRING, partition STRING, at TIMESTAMP")]
)


class KinesisSource(IngressSource):
    """Reads a stream of Kinesis once, into a log; survives splits and merges."""

    options: KinesisSourceOptions
    extra = "partition STRING, position STRING"
    inherits = ("AWS_",)  # credentials and regions, where the options leave them to the library

    def __init__(self, options: KinesisSourceOptions) -> None:
        super().__init__(options)
        if options.ids != "never" and not options.duplicates_within:
            raise OptionError("is 0, so `ids` would not help", option="duplicates_within")
        if options.ids != "never" and not options.aggregated:
            message = "identities are in aggregates, which `aggregated: false` leaves as they are"
            raise OptionError(message, option="ids")

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]
        """Every record once: how far reading is, is stored with what was read."""
        options = self.options
        goes_on = options.on_loss == "report"
        assumptions = [
            "the disk keeps what it says it has written",
            "a record that a producer has put twice is two records",
        ]
        if options.ids != "never":
            assumptions[-1] = (
                "a record that a producer has put twice is two records, unless the sink `kinesis` gave "
                f"it an identity and both come within {write_duration(options.duplicates_within)}"
            )
        if not goes_on:
            assumptions.insert(1, "records are read before the stream drops them")
        if options.receivers > 1:
            assumptions.append(
                "the order of records of different shards, also of a shard and its parents, does not "
                f"matter: {options.receivers} receivers share them"
            )
        return SourceCapabilities(
            ordered=options.receivers == 1,
            lossy=goes_on,
            why="with `on_loss: report` records that the stream no longer has are told in the output "
            "`lost`, and not waited for"
            if goes_on
            else "",
            assumptions=tuple(assumptions),
            shown=Shown(
                Level.AT_MOST_ONCE if goes_on else Level.EXACTLY_ONCE,
                by="packages/broker-kinesis/tests/test_kinesis_source_crashes.py",
            ),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_broker_kinesis.source.receiver import KinesisReceiver

        return KinesisReceiver

    # -- what is gone ---------------------------------------------------------------------------

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        """Broken aggregates come out of `rejected`; what the stream has dropped, of `lost`."""
        found = dict(super().outputs(inputs))
        return found | {"lost": LOST_RECORDS} if self.options.on_loss == "report" else found

    def load(self, ctx: SourceContext) -> DataFrame:
        frame = super().load(ctx)
        if self.options.on_loss == "fail":
            return frame
        columns = {"origin": "origin", "partition": "partition", "at": "timestamp"}
        return split_lost(frame, ctx, HEADER, columns)

    # -- measuring ------------------------------------------------------------------------------

    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return what is in the log and not read, and how far the log is behind each shard."""
        return [*super().lag(reached), *self._measuring.behind(self.log(reached.home))]

    @cached_property
    def _measuring(self) -> Measuring:
        from mainstem_broker_kinesis.source.lag import Measuring

        return Measuring(self.options)
