"""What `own.yaml` calls for its prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def in_euros(frame: DataFrame, rates: Mapping[str, float]) -> DataFrame:
    """Return what was paid, in euros."""
    table = F.create_map(*(F.lit(each) for pair in rates.items() for each in pair))
    return frame.select("city", (F.col("cents") / 100 * table[F.col("currency")]).alias("euros"))
