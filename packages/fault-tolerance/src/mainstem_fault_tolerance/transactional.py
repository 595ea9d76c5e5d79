"""Delivery `transactional`: a batch and its ledger entry in one transaction of the external system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem import Batch, Delivery, OptionError, Options, Promise, Shape, Sink, Transactional

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GROUND = (
    "rows and the batch's ledger entry are committed together, and a batch that the ledger has is not "
    "written again"
)


class TransactionalOptions(Options):
    """Options of `transactional`: none."""


class TransactionalDelivery(Delivery):
    """Writes a batch and its entry in the external system's ledger in one transaction.

    A batch that the ledger has is not written again, whatever became of the answer to its commit. The
    batch goes through the driver; for large ones see `staged`.
    """

    options: TransactionalOptions

    def promise(self, sink: Sink, shape: Shape) -> Promise:
        if not isinstance(sink, Transactional):
            raise OptionError(
                f"{type(sink).__name__} has no transactions with a ledger (Transactional)",
                hint="Leave `deliver` out: the strongest strategy that the sink offers is taken.",
            )
        return Promise(
            grounds=(_GROUND,),
            assumptions=sink.capabilities.assumptions,
        )

    def write(self, sink: Sink, frame: DataFrame, batch: Batch) -> DataFrame | None:
        assert isinstance(sink, Transactional)  # noqa: S101
        return sink.write_once(frame, batch)
