"""`sort`, `deduplicate` and `top` without Spark: against plain computations, for any order and batches."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem_keyed_state.testing import Driver, Paged, cut, micros
from mainstem_keyed_state.times import TIME
from mainstem_operators_windows.deduplicate_logic import COPIES, FirstLogic, LastLogic
from mainstem_operators_windows.sort_logic import SortLogic
from mainstem_operators_windows.top import Term
from mainstem_operators_windows.top_logic import TopLogic

COLUMNS = pl.Schema({"k": pl.String(), "at": TIME, "v": pl.Int64(), "_id": pl.Binary()})
START = datetime(2026, 1, 1, tzinfo=UTC)
DELAY, WITHIN = timedelta(minutes=10), timedelta(minutes=5)
MINUTE = timedelta(minutes=1)
MICRO = timedelta(microseconds=1)
FAR = micros(START + timedelta(days=400))

#: Rows as (key, minute, value, batch's end after it).
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 40),
        st.one_of(st.none(), st.integers(0, 3)),
        st.booleans(),
    ),
    max_size=25,
)


def row(number: int, key: str, minute: int, value: int | None) -> dict[str, Any]:
    return {"k": key, "at": START + minute * MINUTE, "v": value, "_id": number.to_bytes(2, "big")}


def played(kind: type, logic: Any, rows: list[Any], *, pages: int = 2, after: Any = None) -> Any:
    """Run rows in their batches, those that are late left out; return the driver and what was on time."""
    driver = kind(logic, {"input": ["k"]}, {"input": ("at", DELAY // MICRO)}, pages=pages)
    on_time: list[list[dict[str, Any]]] = []
    places = [n + 1 for n, each in enumerate(rows) if each[3]]
    for batch in cut([row(n, *each[:3]) for n, each in enumerate(rows)], places):
        mark = driver.watermark
        taken = [r for r in batch if mark is None or micros(r["at"]) >= mark]
        on_time.append(taken)
        came = driver.batch({"input": taken})
        if after is not None:
            after(taken, came)
        driver.restart()
    driver.advance(FAR)
    return driver, on_time


def clusters(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return rows by key and by the earliest that they are copies of."""
    found: list[list[dict[str, Any]]] = []
    for each in sorted(rows, key=lambda r: (r["k"], r["at"], r["_id"])):
        first = found[-1][0] if found else None
        if first and first["k"] == each["k"] and each["at"] - first["at"] <= WITHIN:
            found[-1].append(each)
        else:
            found.append([each])
    return found


@pytest.mark.parametrize("kind", [Driver, Paged])
@settings(deadline=None, max_examples=20)
@given(rows=ROWS)
def test_sorted_rows_come_once_each_in_the_order_of_their_time(kind, rows):
    """Pass: all that was on time, by time and identity; each when the watermark has passed it."""

    def check(_: Any, came: Any) -> None:
        assert all(micros(r["at"]) < (driver_mark[0] or 0) for r in came[""])

    driver_mark: list[int | None] = [None]
    logic = SortLogic(COLUMNS, "at")
    driver = kind(logic, {"input": ["k"]}, {"input": ("at", DELAY // MICRO)}, pages=2)
    on_time = []
    for batch in cut([row(n, *each[:3]) for n, each in enumerate(rows)], range(0, len(rows), 4)):
        mark = driver_mark[0] = driver.watermark
        taken = [r for r in batch if mark is None or micros(r["at"]) >= mark]
        on_time += taken
        check(taken, driver.batch({"input": taken}))
        driver.restart()
    driver.advance(FAR)
    for key in "ab":
        mine = [r for r in on_time if r["k"] == key]
        came = [r for r in driver.outputs[""] if r["k"] == key]
        assert came == sorted(mine, key=lambda r: (r["at"], r["_id"]))
    assert driver.rows("waiting") == []


@pytest.mark.parametrize("kind", [Driver, Paged])
@pytest.mark.parametrize(
    ("logic", "keys"),
    [
        (lambda: SortLogic(COLUMNS, "at"), ["k"]),
        (lambda: LastLogic(COLUMNS, "at", 0), ["k"]),
        (lambda: top(time="at", final=True), ["k", "at"]),
    ],
)
def test_rows_that_a_step_above_has_held_back_come_out_with_their_batch(kind, logic, keys):
    """Pass: of rows that the watermark has passed when they come nothing waits for a later batch."""
    driver = kind(logic(), {"input": keys}, {})
    driver.advance(micros(START + 20 * MINUTE))
    came = driver.batch({"input": [row(n, "a", n, n) for n in (7, 3, 5)]})[""]
    assert sorted(r["v"] for r in came) == [3, 5, 7]
    assert all(driver.rows(name) == [] for name in driver.logic.tables)


@pytest.mark.parametrize("kind", [Driver, Paged])
@settings(deadline=None, max_examples=20)
@given(rows=ROWS)
def test_the_last_copy_hangs_on_times_alone(kind, rows):
    """Pass: however rows are cut into batches, of each cluster the last comes out, the others as copies."""
    driver, on_time = played(kind, LastLogic(COLUMNS, "at", WITHIN // MICRO), rows)
    found = clusters([r for batch in on_time for r in batch])
    by_id = lambda rows: sorted(r["_id"] for r in rows)  # noqa: E731
    assert by_id(driver.outputs[""]) == by_id(c[-1] for c in found)
    assert by_id(driver.outputs[COPIES]) == by_id(r for c in found for r in c[:-1])
    assert driver.rows("waiting") == []


@pytest.mark.parametrize("kind", [Driver, Paged])
@settings(deadline=None, max_examples=20)
@given(rows=ROWS)
def test_the_first_copy_passes_at_once(kind, rows):
    """Pass: each batch's earliest row that is near none that has passed; all others are copies."""
    passed: dict[str, list[datetime]] = defaultdict(list)

    def check(taken: Any, came: Any) -> None:
        first = set()
        for each in sorted(taken, key=lambda r: (r["at"], r["_id"])):
            if all(abs(each["at"] - at) > WITHIN for at in passed[each["k"]]):
                passed[each["k"]].append(each["at"])
                first.add(each["_id"])
        assert {r["_id"] for r in came[""]} == first
        assert {r["_id"] for r in came[COPIES]} == {r["_id"] for r in taken} - first

    driver, _ = played(kind, FirstLogic(COLUMNS, "at", WITHIN // MICRO), rows, after=check)
    assert driver.rows("kept") == []


def test_a_copy_at_the_very_end_of_the_time_is_one():
    """Pass: a row is known as long as a copy of it can be on time, and no longer."""
    logic = FirstLogic(COLUMNS, "at", WITHIN // MICRO)
    driver = Driver(logic, {"input": ["k"]}, {"input": ("at", DELAY // MICRO)})
    driver.batch({"input": [row(0, "a", 0, 0), row(1, "b", 15, 1)]})
    assert driver.watermark == micros(START + WITHIN)
    came = driver.batch({"input": [row(2, "a", 5, 2)]})
    assert (came[""], [r["v"] for r in came[COPIES]]) == ([], [2])
    driver.advance(micros(START + WITHIN) + 1)
    assert [r["__at"] for r in driver.rows("kept")] == [START + 15 * MINUTE]


def top(**changed: Any) -> TopLogic:
    terms = [Term("v", descending=True, nulls_last=True), Term("at", False, False)]
    given = {"terms": terms, "n": 2, "rank": "rank", "time": None, "final": False, **changed}
    return TopLogic(COLUMNS, **given)


def best(rows: list[dict[str, Any]], key: str) -> list[tuple[Any, ...]]:
    mine = [r for r in rows if r["k"] == key]
    mine.sort(key=lambda r: (r["v"] is None, -(r["v"] or 0), r["at"], r["_id"]))
    return [(n + 1, r["v"], r["at"]) for n, r in enumerate(mine[:2])]


@pytest.mark.parametrize("kind", [Driver, Paged])
@settings(deadline=None, max_examples=20)
@given(rows=ROWS)
def test_changes_of_ranks_make_the_table(kind, rows):
    """Pass: put into a table they give the first rows after each batch; pre-images are what was there."""
    table: dict[tuple[str, int], tuple[Any, ...]] = {}
    seen: list[dict[str, Any]] = []

    def check(taken: Any, came: Any) -> None:
        seen.extend(taken)
        changes = came[""]
        for change in changes:
            at = (change["k"], change["rank"])
            value = (change["rank"], change["v"], change["at"])
            if change["_change_type"] == "update_preimage":
                assert table[at] == value
            assert (change["_change_type"] == "insert") == (at not in table)
        kinds = defaultdict(list)
        for change in changes:
            kinds[change["k"], change["rank"]].append(change["_change_type"])
        both = ["update_postimage", "update_preimage"]
        assert all(sorted(each) in (["insert"], both) for each in kinds.values())
        for change in changes:
            if change["_change_type"] != "update_preimage":
                at = (change["k"], change["rank"])
                table[at] = (change["rank"], change["v"], change["at"])
        for key in "ab":
            there = [table[at] for at in sorted(table) if at[0] == key]
            assert there == best(seen, key)

    played(kind, top(), rows, after=check)


@settings(deadline=None, max_examples=20)
@given(rows=ROWS)
def test_rows_of_one_rank_come_together(rows):
    """Pass: with ties each row has as its rank one more than there are better ones, and all up to n come."""
    term = [Term("v", descending=True, nulls_last=True)]
    logic = top(time="at", final=True, ties=True, terms=term)
    driver = Driver(logic, {"input": ["k", "at"]}, {"input": ("at", FAR)}, pages=3)
    given = [row(n, *each[:3]) for n, each in enumerate(rows)]
    for batch in cut(given, range(0, len(rows), 5)):
        driver.batch({"input": batch})
        driver.restart()
    driver.advance(FAR)

    def rank(one: dict[str, Any]) -> int:
        value = -1 if one["v"] is None else one["v"]
        others = [r["v"] for r in given if (r["k"], r["at"]) == (one["k"], one["at"])]
        return 1 + sum(v is not None and v > value for v in others)

    wanted = [(r["_id"], rank(r)) for r in given if rank(r) <= 2]
    assert sorted((r["_id"], r["rank"]) for r in driver.outputs[""]) == sorted(wanted)


@settings(deadline=None, max_examples=20)
@given(rows=ROWS)
def test_final_ranks_come_once_their_time_has_passed(rows):
    """Pass: keyed by their time, the first rows of each, once; nothing is kept of them."""
    logic = top(time="at", final=True)
    driver = Driver(logic, {"input": ["k", "at"]}, {"input": ("at", DELAY // MICRO)}, pages=3)
    on_time = []
    for batch in cut([row(n, *each[:3]) for n, each in enumerate(rows)], range(0, len(rows), 5)):
        mark = driver.watermark
        taken = [r for r in batch if mark is None or micros(r["at"]) >= mark]
        on_time += taken
        driver.batch({"input": taken})
        driver.restart()
    driver.advance(FAR)
    wanted = [
        (key, at, *each)
        for key, at in {(r["k"], r["at"]) for r in on_time}
        for each in best([r for r in on_time if r["at"] == at], key)
    ]
    came = [(r["k"], r["at"], r["rank"], r["v"], r["at"]) for r in driver.outputs[""]]
    assert sorted(came, key=repr) == sorted(wanted, key=repr)
    assert driver.size() == 0
