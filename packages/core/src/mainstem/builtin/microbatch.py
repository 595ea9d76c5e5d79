"""Delivery `microbatch`: a batch is handed to the sink as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem import Batch, Delivery, Options, Promise, Shape, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class MicrobatchOptions(Options):
    """Options of `microbatch`: none."""


class Microbatch(Delivery):
    """Hands each batch to the sink as it comes; again, if the first try did not end well."""

    options: MicrobatchOptions

    def promise(self, sink: Sink, shape: Shape) -> Promise:
        facts = sink.capabilities
        if facts.replaces_batch:
            return Promise(assumptions=facts.assumptions)
        return Promise(
            may_double=True,
            reasons=("a batch that is retried after a failure is written again",),
            assumptions=facts.assumptions,
        )

    def write(self, sink: Sink, frame: DataFrame, batch: Batch) -> DataFrame | None:
        return sink.write(frame, batch)
