"""A function of a document's, for the standard tests."""

from __future__ import annotations

from typing import Any

import polars as pl


def latest(
    rows: pl.DataFrame, kept: pl.DataFrame, watermark: Any
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tell of each key how many rows have come and the greatest value, whatever batches they come in."""
    new = rows.group_by("k").agg(count=pl.len(), most=pl.col("v").max())
    both = pl.concat([kept, new.cast(dict(kept.schema))])
    now = both.group_by("k").agg(pl.col("count").sum(), pl.col("most").max())
    return now, now
