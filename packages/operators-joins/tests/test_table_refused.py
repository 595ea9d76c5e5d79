"""Which rows `table` refuses, and why, as Spark marks them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from mainstem import Events, EventTime, Inputs
from mainstem_keyed_state.guard import PAYLOAD, REASON, refusals
from mainstem_operators_joins.columns import GONE
from mainstem_operators_joins.table import ToTable

_GIVEN = Events("k STRING, s BIGINT, `a t` TIMESTAMP", event_time=EventTime("a t", timedelta(0)))
_FORGOTTEN = "a t of a deletion is null, so it could not be forgotten"


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({}, {2: "k is null", 3: "s is null"}),
        (
            {"deletes_within": "1 minute"},
            {2: "k is null", 3: "s is null", 5: _FORGOTTEN},
        ),
        (
            {"delete": "s / 0 = 1", "on_error": "reject", "deletes_within": "1 minute"},
            {2: "k is null", 3: "s is null", 5: _FORGOTTEN, 7: "delete fails: s / 0 = 1"},
        ),
    ],
)
def test_rows_that_lack_what_is_needed_are_marked(spark, options, refused):
    """Pass: those without key or sequence, and where deletions are forgotten those without a time; those
    of which the condition of deletions does not say whether they delete. Each with its reason and row."""
    given = {"key": ["k"], "sequence": "s", **options}
    table = ToTable(ToTable.options_model()(**given))
    now, none = "TIMESTAMP'2024-05-01'", "CAST(NULL AS TIMESTAMP)"
    rows = [
        ("'a'", "1", now, "true"), ("NULL", "2", now, "false"), ("'a'", "NULL", now, "true"),
        ("'a'", "4", none, "false"), ("'a'", "5", none, "true"), ("'a'", "6", now, "false"),
        ("'a'", "7", now, "NULL" if "delete" in options else "false"),
    ]  # fmt: skip
    values = ", ".join(f"({n}, {', '.join(row)})" for n, row in enumerate(rows, 1))
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(n, k, s, `a t`, {GONE})")
    reasons = table.refuses(Inputs({"input": _GIVEN}))["input"]
    marked = frame.selectExpr("n", *refusals(["k", "s"], reasons)).collect()
    assert {row["n"]: row[REASON] for row in marked if row[PAYLOAD] is not None} == refused
    assert {row["n"]: row[REASON] for row in marked if row[REASON] is not None} == refused
    assert b'"s":2' in marked[1][PAYLOAD]
