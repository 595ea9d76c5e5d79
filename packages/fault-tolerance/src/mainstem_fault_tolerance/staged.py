"""Delivery `staged`: executors fill a place that nobody reads, and the driver publishes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem import Batch, Delivery, OptionError, Options, Promise, Shape, Sink, Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GROUND = (
    "a batch is staged where nobody reads and published together with its ledger entry; a batch that "
    "the ledger has is not published again"
)


class StagedOptions(Options):
    """Options of `staged`: none."""


class StagedDelivery(Delivery):
    """Lets executors write in parallel where nobody reads, then publishes all at once with the ledger.

    For batches too large for the driver; a small one costs more than by `transactional`. What a crash
    left at the staging place is removed by the next try.
    """

    options: StagedOptions

    def promise(self, sink: Sink, shape: Shape) -> Promise:
        if not isinstance(sink, Staged):
            raise OptionError(
                f"{type(sink).__name__} has no staging place (Staged)",
                hint="Leave `deliver` out: the strongest strategy that the sink offers is taken.",
            )
        return Promise(
            grounds=(_GROUND,),
            assumptions=(
                "every worker reaches the external system",
                *sink.capabilities.assumptions,
            ),
        )

    def write(self, sink: Sink, frame: DataFrame, batch: Batch) -> DataFrame | None:
        assert isinstance(sink, Staged)  # noqa: S101
        sink.discard(batch)
        return sink.publish(sink.stage(frame, batch), batch)
