"""Rows of the ingress log that stand for messages which did not come, and what becomes of them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from mainstem import LOST, Events, SourceContext, read_columns
from mainstem_ingress import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The header of such a row; no message may have it.
HEADER = "nats.lost"
#: What is missing, of which subject, and when that was seen.
LOST_MESSAGES = Events([*LOST.columns, *read_columns("origin STRING, at TIMESTAMP")])

_GAP = f"headers['{HEADER}']"
_FIELDS = "`from` STRING, to STRING, count BIGINT, reason STRING"


def lost(origin: str, count: int | None, reason: str, first: str = "", last: str = "") -> Message:
    """Return what stands in the log for messages that did not come.

    Args:
        origin: the subject, as far as it is known.
        count: how many they were; None where nobody knows.
        reason: why they are lost.
        first: the first of them, where they have numbers.
        last: the last of them.
    """
    fields = {"from": first or None, "to": last or None, "count": count, "reason": reason}
    told = json.dumps(fields).encode()
    return Message(None, None, [(HEADER, told)], time.time_ns() // 1000, origin)


def split(frame: DataFrame, ctx: SourceContext) -> DataFrame:
    """Let such rows of an ingress log's frame come out of `lost`, to be counted at least."""
    output = "_output" if "_output" in frame.columns else "NULL"
    gap = f"from_json(CAST({_GAP} AS STRING), '{_FIELDS}')"
    fields = ", ".join(f"'{name}', {gap}.`{name}`" for name in ("from", "to", "count", "reason"))
    row = f"named_struct('node', '{ctx.node}', {fields}, 'origin', origin, 'at', timestamp)"
    return frame.selectExpr(
        *(name for name in frame.columns if name != "_output"),
        f"CASE WHEN {_GAP} IS NOT NULL THEN 'lost' ELSE {output} END AS _output",
        f"CASE WHEN {_GAP} IS NOT NULL THEN {row} END AS _lost",
    )
