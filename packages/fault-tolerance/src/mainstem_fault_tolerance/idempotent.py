"""Delivery `idempotent`: the sink compares and sets, so that a row written again changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem import (
    Batch,
    Changelog,
    Delivery,
    DeliveryCapabilities,
    IdentifiedWrites,
    KeyedWrites,
    OptionError,
    Options,
    Promise,
    Shape,
    Sink,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class IdempotentOptions(Options):
    """Options of `idempotent`: none."""


class Idempotent(Delivery):
    """Lets the sink compare and set: events by their `_id`, changes by their key and sequence.

    A row that is there already changes nothing, and an older change never overwrites a newer one; so a
    batch can be written again, also cut otherwise, as after a rollback or by a replay.
    """

    options: IdempotentOptions
    capabilities = DeliveryCapabilities(needs_id=True, knows_rows=True)

    def promise(self, sink: Sink, shape: Shape) -> Promise:
        if isinstance(shape, Changelog):
            return self._keyed(sink, shape)
        if not isinstance(sink, IdentifiedWrites):
            raise OptionError(
                f"{type(sink).__name__} does not know rows by their `_id` (IdentifiedWrites)",
                hint="Leave `deliver` out: the strongest strategy that the sink offers is taken.",
            )
        return Promise(
            grounds=("a row whose `_id` is there is not written again",),
            assumptions=(
                "rows keep their `_id` at the external system",
                *sink.capabilities.assumptions,
            ),
        )

    @staticmethod
    def _keyed(sink: Sink, shape: Changelog) -> Promise:
        if not isinstance(sink, KeyedWrites):
            raise OptionError(
                f"{type(sink).__name__} does not compare and set by key (KeyedWrites)",
                hint="Leave `deliver` out: the strongest strategy that the sink offers is taken.",
            )
        if shape.sequence is None:
            ground = "a batch that is written again sets each key to the same row"
            alone = "no run of another checkpoint writes the same keys"
            return Promise(grounds=(ground,), assumptions=(alone, *sink.capabilities.assumptions))
        return Promise(
            grounds=(f"a change is set only over an older one, by {shape.sequence!r}",),
            assumptions=(
                "no change of a deleted key comes later than the sink remembers deletes",
                *sink.capabilities.assumptions,
            ),
        )

    def write(self, sink: Sink, frame: DataFrame, batch: Batch) -> DataFrame | None:
        if isinstance(batch.shape, Changelog):
            assert isinstance(sink, KeyedWrites)  # noqa: S101
            return sink.write_keyed(frame, batch)
        assert isinstance(sink, IdentifiedWrites)  # noqa: S101
        return sink.write_new(frame, batch)
