"""The rows of a key as the sources of a document have them, traced through a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from mainstem import Batch, Options, PipelineError, Shape, Sink, SinkCapabilities
from mainstem.columns import literal, quoted
from mainstem.commands import Plan, gather

from mainstem_operators_patterns.base import Matching
from mainstem_operators_patterns.match_logic import AT, HOLDS, TIE
from mainstem_operators_patterns.matching import Row, Rules
from mainstem_operators_patterns.tracing import Trace, Traced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOREVER = 1 << 62


def explained(
    plan: Plan, node: str, component: Matching, rules: Rules, key: Sequence[str]
) -> tuple[list[Traced], list[str]]:
    """Return the rows of a key with what became of each, and what becomes of the rest when time passes.

    Args:
        key: its values, as text.

    Raises:
        PipelineError: the key has another number of values.
    """
    streams = plan.written[node].inputs["input"]
    given = plan.shape(streams[0])
    if len(key) != len(component.options.by):
        names = ", ".join(component.options.by) or "none"
        raise PipelineError(f"the key has the values {names}: --key for each, in order")
    rows = _Rows(component, given, key)
    gather(plan, streams, rows)
    frame = rows.frame()
    trace = Trace(rules, component.options.define)
    if frame is None:
        return [], []
    found = []
    needed = component.needed()
    values = frame.select(needed).rows() if needed else [()] * frame.height
    order = zip(frame[AT].to_physical(), frame[HOLDS], values, strict=True)
    for number, (at, holds, some) in enumerate(order):
        found.append(trace.take(Row(number, at, holds, some)))
    return found, trace.end(_FOREVER)


class _NoOptions(Options):
    """None."""


class _Rows(Sink):
    """Keeps the rows of a key, with what the matcher needs of them."""

    options: _NoOptions
    capabilities = SinkCapabilities(replaces_batch=True)

    def __init__(self, component: Matching, given: Shape, key: Sequence[str]) -> None:
        super().__init__(_NoOptions())
        self._component, self._given, self._key = component, given, key
        self._batches: dict[int, Any] = {}

    def write(self, frame: DataFrame, batch: Batch) -> None:
        component, given = self._component, self._given
        for name, text in zip(component.key_columns(given), self._key, strict=True):
            frame = frame.where(f"CAST({quoted(name)} AS STRING) = {literal(text)}")
        self._batches[batch.id] = component.prepared(frame, given, []).toArrow()

    def frame(self) -> pl.DataFrame | None:
        """Return the rows in their order; None if there are none."""
        frames = [pl.from_arrow(each) for each in self._batches.values() if each.num_rows]
        if not frames:
            return None
        whole = pl.concat([f for f in frames if isinstance(f, pl.DataFrame)])
        return whole.filter(pl.col(AT).is_not_null()).sort(AT, TIE, maintain_order=True)
