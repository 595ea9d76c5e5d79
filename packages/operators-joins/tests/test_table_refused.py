"""Which rows `table` refuses, as Spark marks them."""

from __future__ import annotations

import polars as pl
import pytest
from mainstem_operators_joins.frames import PAYLOAD, TIME, payload
from mainstem_operators_joins.table_logic import GONE, TableLogic, TableSettings

COLUMNS = pl.Schema({"k": pl.String(), "s": pl.Int64(), "a t": TIME})


@pytest.mark.parametrize(("within", "refused"), [(None, [2, 3]), (60_000_000, [2, 3, 5])])
def test_rows_that_lack_what_is_needed_are_marked(spark, within, refused):
    """Pass: those without key or sequence, and where deletions are forgotten those without a time."""
    settings = TableSettings(key=("k",), sequence="s", time="a t", deletes_within=within)
    logic = TableLogic(settings, COLUMNS)
    now, none = "TIMESTAMP'2024-05-01'", "CAST(NULL AS TIMESTAMP)"
    rows = [
        ("'a'", "1", now, "true"), ("NULL", "2", now, "false"), ("'a'", "NULL", now, "true"),
        ("'a'", "4", none, "false"), ("'a'", "5", none, "true"), ("'a'", "6", now, "false"),
    ]  # fmt: skip
    values = ", ".join(f"({n}, {', '.join(row)})" for n, row in enumerate(rows, 1))
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(n, k, s, `a t`, {GONE})")
    marked = frame.selectExpr("n", payload(logic.needs, list(COLUMNS), logic.wrong)).collect()
    assert [row["n"] for row in marked if row[PAYLOAD] is not None] == refused
