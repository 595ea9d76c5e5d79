"""For sources that know what they have lost: rows of their output `lost`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem.contracts.ddl import read_columns
from mainstem.contracts.shapes import LOST, Events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem.contracts.contexts import SourceContext

_FIELDS = "`from` STRING, to STRING, count BIGINT, reason STRING"


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
