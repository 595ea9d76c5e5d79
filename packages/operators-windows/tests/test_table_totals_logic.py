"""Totals of a table without Spark: after any changes they are what a computation over its rows gives."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem_keyed_state.testing import Driver, Paged, cut
from mainstem_operators_windows.table_totals_logic import RowsLogic, TableTotalsLogic
from mainstem_operators_windows.totals.calls import read_total
from mainstem_operators_windows.totals.functions import accumulators_of

TEXTS = ("count(*)", "sum(v)", "avg(v)", "max(v)", "count(DISTINCT v)", "median(v)", "var_pop(v)",
         "sum(w)", "collect_list(v)")  # fmt: skip
CALLS = [next(read_total("t", text).calls) for text in TEXTS]
INPUTS = {f"_a{n}_0": pl.Int64() for n in range(1, 9)} | {
    "_a5_0": pl.Float64(),
    "_a6_0": pl.Float64(),
    "_a7_0": pl.Float64(),
}
ROW = pl.Schema(
    {
        "g": pl.String(),
        "__key0": pl.Int64(),
        **INPUTS,
        "_sequence": pl.Int64(),
        "_deleted": pl.Boolean(),
    }
)
ASIDE = ["g", "__key0", "_sequence", "_deleted"]

#: Changes as (key, sequence, group, value, whether it deletes, batch's end after it).
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 12),
        st.sampled_from("xy"),
        st.one_of(st.none(), st.integers(-3, 3)),
        st.booleans(),
        st.booleans(),
    ),
    max_size=30,
)


def change(key: int, sequence: int, group: str, value: int | None, deleted: bool) -> dict[str, Any]:
    number = None if value is None else float(value)
    odd = {None: None, -3: float("nan"), 3: float("inf")}.get(value, number)
    inputs = {f"_a{n}_0": value for n in range(1, 9)}
    inputs |= {"_a5_0": number, "_a6_0": number, "_a7_0": odd}
    return {"g": group, "__key0": key, **inputs, "_sequence": sequence, "_deleted": deleted}


def totals(rows: list[dict[str, Any]]) -> Any:
    """Return the totals of a group's rows, as simply as can be."""
    known = sorted(r["_a1_0"] for r in rows if r["_a1_0"] is not None)
    odd = [r["_a7_0"] for r in rows if r["_a7_0"] is not None]
    mean = sum(known) / len(known) if known else None
    middle = len(known) // 2
    return {
        "count": len(rows),
        "sum": (sum(known), len(known)),
        "max": max(known, default=None),
        "different": len(set(known)),
        "median": None if not known else (known[middle] + known[~middle]) / 2,
        "variance": None if mean is None else sum((v - mean) ** 2 for v in known) / len(known),
        "odd": (sum(v for v in odd if v == v and v != float("inf")), len(odd),
                sum(v != v for v in odd), sum(v == float("inf") for v in odd)),
        "list": known,
    }  # fmt: skip


def rank(row: dict[str, Any]) -> Any:
    """Return which of two changes of one key and sequence counts: the greater."""
    value = row["_a1_0"]
    return not row["_deleted"], row["g"], value is not None, value or 0


def told(row: dict[str, Any]) -> Any:
    n = row["_t6_n"]
    return {
        "count": row["_t0_n"],
        "sum": (int(row["_t1_sum"]), row["_t1_n"]),
        "max": row["_t3_value"],
        "different": row["_t4_told"] or 0,
        "median": row["_t5_told"],
        "variance": None if not n else pytest.approx(row["_t6_product00"] / n, abs=1e-9),
        "odd": (
            pytest.approx(row["_t7_sum"], abs=1e-9),
            row["_t7_n"],
            row["_t7_nan"],
            row["_t7_above"],
        ),
        "list": sorted(row["_t8_told"] or []),
    }


@pytest.mark.parametrize("kind", [Driver, Paged])
@settings(deadline=None, max_examples=25)
@given(changes=CHANGES)
def test_totals_are_those_of_the_rows_that_are_there(kind, changes):
    """Pass: after each batch; each change tells what was and what is, once; what comes late is aside."""
    first = kind(RowsLogic(ROW), {"input": ["__key0"]})
    messages = first.logic.outputs[""]
    logic = TableTotalsLogic(
        messages, ["g"], accumulators_of(CALLS, INPUTS, {}, weighted=True), ASIDE
    )
    second = kind(logic, {"input": ["g"]})
    newest: dict[int, dict[str, Any]] = {}
    shown: dict[str, Any] = {}
    places = [n + 1 for n, each in enumerate(changes) if each[5]]
    for batch in cut([change(*each[:5]) for each in changes], places):
        came = second.batch({"input": first.batch({"input": batch})[""]})
        fresh = 0
        for each in batch:
            known = newest.get(each["__key0"])
            if known is None or each["_sequence"] > known["_sequence"]:
                fresh += 1
                newest[each["__key0"]] = each
            elif each["_sequence"] == known["_sequence"] and any(known is r for r in batch):
                newest[each["__key0"]] = max(known, each, key=rank)
        wanted = {}
        for group in "xy":
            there = [r for r in newest.values() if r["g"] == group and not r["_deleted"]]
            if there:
                wanted[group] = totals(there)
        before = [c for c in came[""] if c["_change_type"] in ("delete", "update_preimage")]
        after = [c for c in came[""] if c["_change_type"] in ("insert", "update_postimage")]
        assert all(told(c) == shown.pop(c["g"]) for c in before)
        for each in after:
            assert each["g"] not in shown
            shown[each["g"]] = told(each)
        kinds = {c["g"]: c["_change_type"] for c in before}
        for each in after:
            updates = kinds.get(each["g"]) == "update_preimage"
            assert each["_change_type"] == ("update_postimage" if updates else "insert")
        assert wanted == shown
        first.restart()
        second.restart()


def test_what_is_late_or_lacks_a_key_is_put_aside():
    """Pass: an older change, a second copy, one without sequence, one without key: none is counted."""
    first = Driver(RowsLogic(ROW), {"input": ["__key0"]})
    logic = TableTotalsLogic(
        first.logic.outputs[""], ["g"], accumulators_of(CALLS, INPUTS, {}, weighted=True), ASIDE
    )
    second = Driver(logic, {"input": ["g"]})
    second.batch(
        first.batch({"input": [change(1, 5, "x", 1, False)]}) and {"input": first.outputs[""]}
    )
    batch = [
        change(1, 4, "x", 2, False),
        change(1, 5, "x", 1, False),
        change(2, 7, "x", 3, False) | {"_sequence": None},
        change(3, 8, "x", 3, False) | {"__key0": None},
    ]
    came = second.batch({"input": first.batch({"input": batch})[""]})
    assert came[""] == []
    assert sorted(each["_sequence"] for each in came["late_changes"]) == [4, 5]
    assert [(each["__key0"], each["_sequence"]) for each in came["rejected"]] in (
        [(2, None), (None, 8)],
        [(None, 8), (2, None)],
    )


def test_a_variance_keeps_nothing_of_what_was_taken_back():
    """Pass: after a mistyped value, and one whose square no number holds, it is that of the rows that are left."""
    first = Driver(RowsLogic(ROW), {"input": ["__key0"]})
    totals_ = accumulators_of(CALLS, INPUTS, {}, weighted=True)
    logic = TableTotalsLogic(first.logic.outputs[""], ["g"], totals_, ASIDE)
    second = Driver(logic, {"input": ["g"]})
    steps = [(0, 1, 1.0), (1, 2, 3.0), (2, 3, 1e10), (2, 4, 5.0), (3, 5, 1e200), (3, 6, None)]
    for key, sequence, value in steps:
        row = change(key, sequence, "x", 0, value is None) | {"_a6_0": value}
        came = second.batch({"input": first.batch({"input": [row]})[""]})
    (last,) = (c for c in came[""] if c["_change_type"] == "update_postimage")
    assert last["_t6_n"] == 3
    assert last["_t6_product00"] == 8.0
