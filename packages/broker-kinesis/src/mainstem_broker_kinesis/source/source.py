"""Source `kinesis`: a stream, read ahead into the ingress log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mainstem import (
    Lag,
    Level,
    OptionError,
    Reached,
    Shown,
    SourceCapabilities,
    write_duration,
)
from mainstem_ingress import IngressSource, Receiver

from mainstem_broker_kinesis.source.options import KinesisSourceOptions

if TYPE_CHECKING:
    from mainstem_broker_kinesis.source.lag import Measuring


class KinesisSource(IngressSource):
    """Reads a stream of Kinesis once, into a log; survives splits and merges."""

    options: KinesisSourceOptions
    extra = "partition STRING, position STRING"
    lost_columns = "origin STRING, partition STRING, at TIMESTAMP"  # and `partition` the shard
    inherits = ("AWS_",)  # credentials and regions, where the options leave them to the library

    def __init__(self, options: KinesisSourceOptions) -> None:
        super().__init__(options)
        self.loses = options.on_loss == "report"
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

    # -- measuring ------------------------------------------------------------------------------

    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return what is in the log and not read, and how far the log is behind each shard."""
        return [*super().lag(reached), *self._measuring.behind(self.log(reached.home))]

    @cached_property
    def _measuring(self) -> Measuring:
        from mainstem_broker_kinesis.source.lag import Measuring

        return Measuring(self.options)
