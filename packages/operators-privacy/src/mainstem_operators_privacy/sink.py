"""Sink `forget`: the keys of subjects are destroyed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mainstem import EVENTS, Batch, Level, Shape, Shown, Sink, SinkCapabilities, Typed
from mainstem.attempts import row_as_json
from mainstem.columns import Column, quoted
from mainstem.sinks import Refused, values_of, write_by_tasks

from mainstem_operators_privacy.options import ForgetOptions, KeyOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class ForgetSink(Sink, Typed):
    """Destroys the key of each row's subject: what was encrypted with it nobody reads any more.

    A subject without a key gets none later. To destroy again what is destroyed changes nothing.
    """

    options: ForgetOptions
    accepts = EVENTS
    capabilities = SinkCapabilities(
        shown={
            "microbatch": Shown(
                Level.AT_LEAST_ONCE, "packages/operators-privacy/tests/test_forgetting.py"
            )
        },
    )

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        self.options.subject_of(shape)

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        subject = quoted(self.options.subject_of(batch.shape))
        identity = [name for name in frame.columns if name == "_id"]
        rows = frame.selectExpr(
            f"CAST(CAST({subject} AS STRING) AS BINARY) AS subject",
            f"{row_as_json(frame.columns)} AS payload",
            *identity,
        )
        return write_by_tasks(rows, partial(_forget, self.options.keys))


def _forget(options: KeyOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from mainstem_operators_privacy.calls import store

    refused = Refused()
    for batch in batches:
        named = list(values_of(batch, "subject"))
        identities = values_of(batch, "_id")
        payloads = values_of(batch, "payload")
        for subject, payload, identity in zip(named, payloads, identities, strict=False):
            if subject is None:
                refused.add(identity, payload, "nobody knows whom it is about: its subject is null")
        store(options).destroy(subject for subject in named if subject is not None)
        yield from refused.take()
