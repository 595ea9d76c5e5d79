"""Delivery `numbered`: rows have numbers, and the external system drops what it has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem import (
    Batch,
    Changelog,
    Delivery,
    DeliveryCapabilities,
    NumberedWrites,
    OptionError,
    Options,
    Promise,
    Shape,
    Sink,
)
from mainstem.columns import LOG_ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_UNORDERED = (
    "rows of a key are in no order, but for changes that were encoded: without "
    f"{', '.join(LOG_ORDER)} (`keep`) nobody knows it"
)


class NumberedOptions(Options):
    """Options of `numbered`: none."""


class Numbered(Delivery):
    """Lets the sink write rows with numbers, which are the same whenever a batch is written.

    A batch that was cut is written again, and the external system drops the rows that it has. Readers see
    the rows of a batch as they come, not all at once.
    """

    options: NumberedOptions
    capabilities = DeliveryCapabilities(needs_id=True)

    def promise(self, sink: Sink, shape: Shape) -> Promise:
        if isinstance(shape, Changelog):
            raise OptionError(
                "numbers are for rows that have an `_id`, and changes of a table have none"
            )
        if not isinstance(sink, NumberedWrites):
            raise OptionError(
                f"{type(sink).__name__} does not know rows by numbers (NumberedWrites)",
                hint="Leave `deliver` out: the strongest strategy that the sink offers is taken.",
            )
        if why := sink.unnumbered():
            raise OptionError(why, hint="Or write `deliver: microbatch`.")
        return Promise(
            grounds=("rows have the same numbers in each try, and one that was seen is dropped",),
            assumptions=(
                "a batch that is retried has the same rows: nothing in it depends on clock or chance",
                *([] if set(LOG_ORDER) <= set(shape.names) else [_UNORDERED]),
                *sink.capabilities.assumptions,
            ),
        )

    def write(self, sink: Sink, frame: DataFrame, batch: Batch) -> DataFrame | None:
        assert isinstance(sink, NumberedWrites)  # noqa: S101
        return sink.write_numbered(frame, batch)
