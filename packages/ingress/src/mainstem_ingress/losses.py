"""Rows of the log that stand for messages which did not come, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem import LOST, Events, SourceContext
from mainstem.columns import read_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What is missing, of which origin, and when that was seen.
LOST_MESSAGES = Events([*LOST.columns, *read_columns("origin STRING, at TIMESTAMP")])

_FIELDS = "`from` STRING, to STRING, count BIGINT, reason STRING"
_COLUMNS = {"origin": "origin", "at": "timestamp"}


def lost_header(
    header: str, reason: str, *, count: int | None = None, first: str = "", last: str = ""
) -> tuple[str, bytes]:
    """Return the header of such a row; no message may have one of that name.

    Args:
        header: its name, the source's own.
        reason: why messages are lost.
        count: how many they were; None where nobody knows.
        first, last: the first and the last of them, where they have numbers.
    """
    fields = {"from": first or None, "to": last or None, "count": count, "reason": reason}
    return header, json.dumps(fields).encode()


def split_lost(
    frame: DataFrame, ctx: SourceContext, header: str, columns: Mapping[str, str] = _COLUMNS
) -> DataFrame:
    """Let such rows of a log's frame come out of the source's output `lost`, to be counted at least.

    Args:
        header: see `lost_header`.
        columns: what `lost` has beside the columns of `mainstem.LOST`: SQL by name.
    """
    gap = f"headers['{header}']"
    output = "_output" if "_output" in frame.columns else "NULL"
    fields = [f"'node', '{ctx.node}'"]
    read = f"from_json(CAST({gap} AS STRING), '{_FIELDS}')"
    fields += [f"'{name}', {read}.`{name}`" for name in ("from", "to", "count", "reason")]
    fields += [f"'{name}', {text}" for name, text in columns.items()]
    return frame.selectExpr(
        *(name for name in frame.columns if name != "_output"),
        f"CASE WHEN {gap} IS NOT NULL THEN 'lost' ELSE {output} END AS _output",
        f"CASE WHEN {gap} IS NOT NULL THEN named_struct({', '.join(fields)}) END AS _lost",
    )
