"""Rows of the log that stand for messages which did not come, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainstem import LOST, Events, SourceContext
from mainstem.columns import read_columns

from mainstem_ingress.messages import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Begins what such a row has in place of a reason to refuse it; the rest is JSON.
MARK = "\x1elost "
_FIELDS = "`from` STRING, to STRING, count BIGINT, reason STRING"


def lost(
    reason: str,
    *,
    origin: str = "",
    count: int | None = None,
    first: str = "",
    last: str = "",
    extra: tuple[Any, ...] = (),
) -> Message:
    """Return what a receiver gives for messages that did not come; it comes out of `lost`.

    The source says so by `IngressSource.loses`.

    Args:
        reason: why they are lost.
        origin: where they would have come from, as far as it is known.
        count: how many they were; None where nobody knows.
        first, last: the first and the last of them, where they have numbers.
        extra: as a message's.
    """
    text = MARK + lost_text(reason, count=count, first=first, last=last)
    return Message(None, origin=origin, refused=text, extra=extra)


def loss_of(message: Message) -> dict[str, Any] | None:
    """Return what `lost` has made a message of: from, to, count, reason; None of any other message."""
    if message.refused is None or not message.refused.startswith(MARK):
        return None
    found: dict[str, Any] = json.loads(message.refused.removeprefix(MARK))
    return found


def lost_text(reason: str, *, count: int | None, first: str, last: str) -> str:
    """Return what is known of a loss as JSON, for `split_lost`."""
    return json.dumps({"from": first or None, "to": last or None, "count": count, "reason": reason})


def lost_shape(columns: str) -> Events:
    """Return the shape of an output `lost` that has more columns than `mainstem.LOST`, by their DDL."""
    return Events([*LOST.columns, *read_columns(columns)])


def split_lost(
    frame: DataFrame, ctx: SourceContext, text: str, columns: Mapping[str, str]
) -> DataFrame:
    """Let the rows that stand for a loss come out of the source's output `lost`.

    Args:
        text: SQL that is `lost_text` in such a row, and null in all others.
        columns: what `lost` has beside the columns of `mainstem.LOST`: SQL by name.
    """
    output = "_output" if "_output" in frame.columns else "NULL"
    read = f"from_json({text}, '{_FIELDS}')"
    fields = [f"'node', '{ctx.node}'"]
    fields += [f"'{name}', {read}.`{name}`" for name in ("from", "to", "count", "reason")]
    fields += [f"'{name}', {sql}" for name, sql in columns.items()]
    return frame.selectExpr(
        *(name for name in frame.columns if name != "_output"),
        f"CASE WHEN {text} IS NOT NULL THEN 'lost' ELSE {output} END AS _output",
        f"CASE WHEN {text} IS NOT NULL THEN named_struct({', '.join(fields)}) END AS _lost",
    )
