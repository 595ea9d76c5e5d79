"""The operator `table` without Spark: against a table in plain Python, for any order, batches and restarts."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joins_fuzz import fuzz
from mainstem_keyed_state.guard import Guard
from mainstem_keyed_state.testing import Driver, cut, micros
from mainstem_operators_joins.frames import TIME, with_columns
from mainstem_operators_joins.table_logic import TableLogic, TableSettings
from stream_table_model import minute

COLUMNS = pl.Schema({"k": pl.String(), "seq": pl.Int64(), "at": TIME, "v": pl.Int64()})
FAR = micros(minute(100_000))
HOUR = 3_600_000_000


def driver(pages: int = 1, **changed: Any) -> Driver:
    """Return a run of a table keyed by `k`, with watermarks an hour behind."""
    chosen = TableSettings(**{"key": ("k",), "sequence": "seq", "time": "at", **changed})
    logic = TableLogic(chosen, with_columns(COLUMNS, {"_gone": pl.Boolean()}))
    guarded = Guard(logic, ["input"], None, None)
    return Driver(guarded, {"input": ["k"]}, {"input": ("at", HOUR)}, pages=pages)


def row(k: str | None, seq: int | None, v: int | None, at: int = 0) -> dict[str, Any]:
    """Return a row of the port; one without a value deletes its key."""
    lacks = "k" if k is None else "seq" if seq is None else None
    return {
        "k": k, "seq": seq, "at": minute(at), "v": v, "_gone": v is None,
        "_refused": lacks and f"{lacks} is null", "_payload": b"{}" if lacks else None,
    }  # fmt: skip


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return changes as (kind, key, value, the row's sequence, the change's)."""
    return [(r["_change_type"], r["k"], r["v"], r["seq"], r["_commit_version"]) for r in rows]


class Model:
    """A table as dictionaries, which holds each change against what it had."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, int | None]] = {}
        self.changes: list[tuple[Any, ...]] = []
        self.late: list[tuple[str, int, str]] = []
        self.rejected = 0

    def batch(self, rows: list[dict[str, Any]]) -> None:
        whole = [r for r in rows if r["k"] is not None and r["seq"] is not None]
        self.rejected += len(rows) - len(whole)
        before = dict(self.known)
        best: dict[tuple[str, int], int | None] = {}
        for r in whole:
            at = (r["k"], r["seq"])
            if at in best:
                self.late.append((*at, "duplicate"))
            best[at] = r["v"] if best.get(at) is None else best[at]
        for (key, seq), value in sorted(best.items(), key=lambda item: item[0]):
            if key in before and seq <= before[key][0]:
                self.late.append((key, seq, "duplicate" if seq == before[key][0] else "older"))
                continue
            old_seq, old = self.known.get(key, (None, None))
            self.known[key] = (seq, value)
            if old is None and value is None:
                self.late.append((key, seq, "nothing to delete"))
            elif old is None:
                self.changes.append(("insert", key, value, seq, seq))
            elif value is None:
                self.changes.append(("delete", key, old, old_seq, seq))
            else:
                self.changes.append(("update_preimage", key, old, old_seq, seq))
                self.changes.append(("update_postimage", key, value, seq, seq))


@st.composite
def _rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows in any order; those of one key and sequence are alike, but for deletions."""
    values: dict[Any, int] = {}
    found = []
    for k, seq, v in draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "a", "b", "c", None]),
                st.one_of(st.integers(0, 6), st.integers(0, 6), st.none()),
                st.one_of(st.none(), st.integers(0, 99), st.integers(0, 99)),
            ),
            max_size=16,
        )
    ):
        found.append(row(k, seq, v if v is None else values.setdefault((k, seq), v)))
    return found


@fuzz(300)
@given(_rows(), st.lists(st.integers(0, 16), max_size=4), st.sampled_from([1, 3]), st.booleans())
def test_each_change_is_told_with_what_was_before(rows, places, pages, restarts):
    """Pass: changes, late rows with their reasons, and the table equal the model's after each batch."""
    run, model = driver(pages), Model()
    for part in cut(rows, places):
        run.batch({"input": part})
        model.batch(part)
        if restarts:
            run.restart()
        assert sorted(told(run.outputs[""])) == sorted(model.changes)
        late = [(r["k"], r["seq"], r["_reason"]) for r in run.outputs["late"]]
        assert sorted(late) == sorted(model.late)
        assert {r["k"]: (r["seq"], r["v"]) for r in run.rows("rows")} == model.known
    assert len(run.outputs["rejected"]) == model.rejected


@fuzz(150)
@given(st.data(), _rows())
def test_the_last_table_is_the_same_for_every_order(data, rows):
    """Pass: whatever came first, the changes make the table of the greatest sequences."""
    best: dict[str, tuple[int, int | None]] = {}
    for r in rows:
        if r["k"] is not None and r["seq"] is not None:
            seq, value = best.get(r["k"], (-1, None))
            if r["seq"] > seq or (r["seq"] == seq and value is None):
                best[r["k"]] = (r["seq"], r["v"])
    # A deletion beside a row of its sequence counts only if the row never comes in another batch.
    alike = {
        (r["k"], r["seq"]): [x["v"] for x in rows if (x["k"], x["seq"]) == (r["k"], r["seq"])]
        for r in rows
    }
    rows = [
        r for r in rows if r["v"] is not None or all(v is None for v in alike[r["k"], r["seq"]])
    ]
    run = driver()
    for part in cut(
        data.draw(st.permutations(rows)), data.draw(st.lists(st.integers(0, 16), max_size=4))
    ):
        run.batch({"input": part})
    table: dict[str, int] = {}
    for kind, key, value, _, _ in told(run.outputs[""]):
        if kind in ("update_preimage", "delete"):
            assert table.pop(key) == value
        else:
            table[key] = value
    assert table == {key: value for key, (_, value) in best.items() if value is not None}


def test_a_deletion_is_forgotten_after_its_time_and_not_before():
    """Pass: an older row changes nothing until the watermark is past `deletes_within`; no state is left."""
    run = driver(deletes_within=10 * HOUR)
    run.batch({"input": [row("a", 1, 5), row("a", 3, None, at=60)]})
    run.advance(micros(minute(60)) + 10 * HOUR - 1)
    run.batch({"input": [row("a", 2, 6)]})
    assert [r["_reason"] for r in run.outputs["late"]] == ["older"]
    run.advance(micros(minute(60)) + 10 * HOUR)
    assert run.size() == 0


@pytest.mark.parametrize("limits", [{"history_versions": 10}, {"history_within": 10**6 * HOUR}])
def test_with_a_deletion_its_keys_history_is_forgotten_and_no_other(limits):
    """Pass: until the deletion is due both are there, then neither; the history of another key stays."""
    run = driver(history=True, deletes_within=10 * HOUR, **limits)
    run.batch({"input": [row("a", 1, 5), row("b", 1, 5)]})
    run.batch({"input": [row("a", 3, None, at=60), row("b", 2, 6)]})
    run.advance(micros(minute(60)) + 10 * HOUR - 1)
    run.batch({"input": [row("a", 2, 7)]})
    assert sorted(r["k"] for r in run.rows("history")) == ["a", "a", "b"]
    run.advance(micros(minute(60)) + 10 * HOUR)
    assert [r["k"] for r in run.rows("history")] == ["b"]
    assert [r["k"] for r in run.rows("rows")] == ["b"]


def test_a_deletion_that_comes_when_it_is_due_already_leaves_nothing():
    """Pass: its key's row and history are gone after its batch."""
    run = driver(history=True, history_versions=10, deletes_within=HOUR)
    run.batch({"input": [row("a", 1, 5)]})
    run.advance(micros(minute(600)))
    run.batch({"input": [row("a", 2, 6), row("a", 3, None)]})
    assert run.size() == 0
    assert [kind for kind, *_ in told(run.outputs[""])][-1] == "delete"


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"history_versions": 2}, [3, 4]),
        ({"history_within": 2 * HOUR}, [1, 2, 3, 4]),
        ({"history_versions": 3, "history_within": 2 * HOUR}, [2, 3, 4]),
    ],
)
def test_history_keeps_former_rows_by_number_and_time(limits, kept):
    """Pass: of five rows the former ones that the limits allow; once time has passed, none by time."""
    run = driver(history=True, **limits)
    for part in ([1, 2], [5, 3], [4]):
        run.batch({"input": [row("a", seq, seq, at=seq) for seq in part]})
    assert sorted(r["seq"] for r in run.rows("history")) == kept
    run.batch({"input": [row("a", 4, 4, at=4)]})
    assert [(r["seq"], r["_reason"]) for r in run.outputs["late"]] == [
        (4, "older"),
        (4, "duplicate"),
    ]
    run.advance(FAR)
    assert sorted(r["seq"] for r in run.rows("history")) == (
        [] if "history_within" in limits else kept
    )


def test_history_by_time_has_no_rows_without_a_time():
    """Pass: nobody could tell when to let them go; by number they are kept as others are."""
    rows = [{**row("a", seq, seq), "at": None} for seq in range(5)]
    for limits, kept in (({"history_within": HOUR}, 0), ({"history_versions": 3}, 3)):
        run = driver(history=True, **limits)
        for each in rows:
            run.batch({"input": [each]})
        assert len(run.rows("history")) == kept


def test_rows_without_key_or_sequence_are_refused_with_the_reason():
    """Pass: one refused row for each, with its reason and payload."""
    run = driver()
    run.batch({"input": [row(None, 1, 1), row("a", None, 1), row("a", 1, 1)]})
    assert sorted(r["reason"] for r in run.outputs["rejected"]) == ["k is null", "seq is null"]
    assert told(run.outputs[""]) == [("insert", "a", 1, 1, 1)]
