"""What `own.yaml` calls for its logins."""

from __future__ import annotations

from datetime import datetime

import polars as pl


def failures(
    rows: pl.DataFrame,
    kept: pl.DataFrame,
    watermark: datetime | None,  # noqa: ARG001
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tell with each failed login how many have failed in a row."""
    failed, out = dict(kept.iter_rows()), []
    for user, ok in rows.select("user", "ok").iter_rows():
        failed[user] = 0 if ok else failed.get(user, 0) + 1
        if not ok:
            out.append((user, failed[user]))
    left = [(user, count) for user, count in failed.items() if count]
    return (
        pl.DataFrame(out, kept.schema, orient="row"),
        pl.DataFrame(left, kept.schema, orient="row"),
    )
