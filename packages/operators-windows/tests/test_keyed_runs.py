"""`sort`, `deduplicate` and `top` in documents that are run: order in files, restarts, and steps between."""

from __future__ import annotations

import pytest
from mainstem import Events
from mainstem_keyed_state import polars_schema
from mainstem_keyed_state.testing import Driver
from mainstem_operators_windows.top import Top, TopOptions
from mainstem_operators_windows.top_logic import TopLogic
from windows_cases import SCHEMA, Case, step

DEDUPLICATED = ("node", "node.copies", "node.late")
pytestmark = pytest.mark.in_turn


def test_sorted_rows_stand_in_their_order_in_the_files_of_a_sink(pipeline, spark):
    """Pass: fed out of order over five batches and two runs, each key's rows are in order; the late one is
    in `late`."""
    case = Case(pipeline, step("sort", by=["k"]), "node", "node.late")
    case.feed(*((k, f"01:{m:02}", m) for m in (9, 3, 7, 0, 5) for k in "abc"))
    case.feed(*((k, f"01:{m:02}", m) for m in (8, 1, 6, 2, 4) for k in "cab"))
    case.run()
    case.feed(("a", "02:00", 60), ("b", "01:55", 55), ("c", "01:59", 59))
    case.run()
    case.feed(("a", "01:30", -1), ("b", "02:05", 65))
    case.run(flush=True)
    found = case.found("node")
    minutes = [*range(10)]
    assert [v for k, _, v in found if k == "a"] == [*minutes, 60]
    assert [v for k, _, v in found if k == "b"] == [*minutes, 55, 65]
    assert [v for k, _, v in found if k == "c"] == [*minutes, 59]
    assert case.found("node.late") == [("a", "01:30", -1)]


def test_rows_that_wait_to_be_sorted_get_a_column_that_the_source_gains(pipeline, spark):
    """Pass: what waited before comes out with null in it."""
    case = Case(pipeline, step("sort", by=["k"]), "node")
    case.feed(("a", "01:00", 1))
    case.run()
    assert case.rows("node") == []
    case.run(flush=True, schema=f"{SCHEMA}, w INT")
    assert [(row["v"], row.get("w")) for row in case.rows("node")] == [(1, None)]


def test_copies_are_known_over_restarts(pipeline, spark):
    """Pass: of a key's rows within the time one comes out, over three runs; copies and late rows are told."""
    case = Case(pipeline, step("deduplicate", by=["k"], within="1 hour"), *DEDUPLICATED)
    case.feed(("a", "01:10", 1), ("a", "01:05", 0), ("b", "01:10", 2), (None, "01:10", 3))
    case.run()
    case.feed(("a", "01:12", 4), ("b", "02:10", 5), (None, "01:20", 6))
    case.run()
    case.feed(("b", "02:11", 7), ("a", "01:59", 8), ("a", "02:30", 9))
    case.run()
    assert sorted(v for *_, v in case.found("node")) == [0, 2, 3, 7, 9]
    assert sorted(v for *_, v in case.found("node.copies")) == [1, 4, 5, 6]
    assert [v for *_, v in case.found("node.late")] == [8]


def test_the_first_of_each_hour_are_ranked_below_its_totals(pipeline, spark):
    """Pass: the two keys with the most rows of each hour, once it is over, in one document."""
    window = {"on": "at", "tumbling": "1 hour"}
    totals = {"by": ["k"], "window": window, "columns": {"n": "count(*)"}}
    ranks = {"by": ["window_end"], "order": ["n DESC", "k"], "n": 2, "emit": "final"}
    operators = {
        "hours": {"use": "aggregate", "from": "rows", "with": totals},
        "node": {"use": "top", "from": "hours", "with": ranks},
    }
    case = Case(pipeline, operators, "node")
    case.feed(*(("a", "01:10", 1),) * 3, *(("b", "01:20", 1),) * 2, *(("c", "01:30", 1),) * 2)
    case.feed(("c", "02:10", 1), ("b", "02:20", 1), ("b", "02:21", 1))
    case.run(flush=True)
    found = [(r["window_end"][11:13], r["rank"], r["k"], r["n"]) for r in case.rows("node")]
    assert sorted(found) == [
        ("02", 1, "a", 3),
        ("02", 2, "b", 2),
        ("03", 1, "b", 2),
        ("03", 2, "c", 1),
    ]


def test_ranks_that_change_become_a_table(pipeline, spark):
    """Pass: the changes of two batches, put into a table, are the two greatest values of each key."""
    case = Case(pipeline, step("top", by=["k"], order=["v DESC"], n=2), "node")
    case.feed(("a", "01:00", 1), ("a", "01:01", 5), ("b", "01:00", 2))
    case.feed(("a", "01:02", 3), ("b", "01:02", 9), ("a", "01:03", 0))
    case.run()
    table = {}
    for row in sorted(case.rows("node"), key=lambda row: row["_commit_version"]):
        if row["_change_type"] != "update_preimage":
            table[row["k"], row["rank"]] = row["v"]
    assert table == {("a", 1): 5, ("a", 2): 3, ("b", 1): 9, ("b", 2): 2}


@pytest.mark.parametrize("way", ["ASC", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST"])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("DOUBLE", "1.5D, -0.0D, double('NaN'), double('-inf'), double('inf'), NULL, -2D"),
        ("STRING", "'b', 'a', '', 'Z', 'é', '\U0001f600', '\ufffd', NULL"),
        ("BINARY", "X'00', X'', X'FF', X'7F01', NULL"),
        ("DECIMAL(38,10)", "1.5, -20000000000000000000.1, 3, NULL"),
        ("TIMESTAMP", "'0001-01-01', '9999-12-31 23:59:59.999999', '1969-12-31', NULL"),
        ("BOOLEAN", "true, false, NULL"),
    ],
)
def test_the_order_is_that_of_sql(spark, kind, values, way):
    """Pass: values of each type rank as Spark's ORDER BY has them, NaN and null too."""
    shape = Events(f"v {kind}")
    (term,) = Top(TopOptions(order=[f"v {way}"], n=20))._terms(shape)
    frame = spark.sql(
        f"SELECT CAST(col AS {kind}) AS v FROM (SELECT explode(array({values})) AS col)"
    )
    rows = [{"v": value} for value in frame.toArrow().column("v").to_pylist()]
    logic = TopLogic(polars_schema(frame), terms=[term], n=20, rank="rank", time=None, final=False)
    driver = Driver(logic, {"input": lambda _: [1]})
    came = driver.batch({"input": rows})[""]
    mine = [row["v"] for row in sorted(came, key=lambda row: row["rank"])]
    right = spark.sql("SELECT v FROM {frame} ORDER BY v " + way, frame=frame).toArrow()
    assert list(map(repr, mine)) == list(map(repr, right.column("v").to_pylist()))
