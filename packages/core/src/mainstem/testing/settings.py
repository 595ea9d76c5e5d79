"""Spark settings for tests."""

from __future__ import annotations

from collections.abc import Mapping

#: For a session that is small and quick to start.
QUICK: Mapping[str, str | int | float | bool] = {
    "spark.ui.enabled": False,
    "spark.sql.shuffle.partitions": 1,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
