"""Windows in state by key without Spark: against plain computations, for any rows, batches and restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mainstem_keyed_state.testing import Driver, Paged, cut, micros
from mainstem_keyed_state.times import TIME
from mainstem_operators_windows.ordered_logic import CountedLogic, SlidingCountLogic, SlidingLogic
from mainstem_operators_windows.totals.calls import read_total
from mainstem_operators_windows.totals.functions import accumulators_of
from mainstem_operators_windows.windows_logic import Emission, Windowing, WindowsLogic

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, MICRO = timedelta(minutes=1), timedelta(microseconds=1)
DELAY, LENGTH, GAP = 10 * MINUTE, 10 * MINUTE, 5 * MINUTE
FAR = micros(BEGIN + timedelta(days=400))
COLUMNS = pl.Schema(
    {
        "k": pl.String(),
        "__at": TIME,
        "__start": TIME,
        "__end": TIME,
        "__tie": pl.Binary(),
        "_a1_0": pl.Int64(),
        "_a2_0": pl.Int64(),
    }
)
CALLS = [next(read_total("t", text).calls) for text in ("count(*)", "sum(v)", "collect_list(v)")]
LATE = {"k": pl.String(), "_a1_0": pl.Int64()}
ACCUMULATORS = accumulators_of(CALLS, COLUMNS, {"__at": TIME, "__tie": pl.Binary()})
WINDOWING = Windowing(["k"], ACCUMULATORS, ("from", "to"), LATE)

#: Rows as (key, minute, batch's end after it).
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.booleans()), max_size=25)


def row(number: int, key: str, minute: int) -> dict[str, Any]:
    at = BEGIN + minute * MINUTE
    start = BEGIN + minute // 10 * LENGTH
    found = {"k": key, "__at": at, "__start": start, "__end": start + LENGTH}
    return {**found, "__tie": number.to_bytes(2, "big"), "_a1_0": number, "_a2_0": number}


@dataclass
class Window:
    """A window as the plain computation has it."""

    key: str
    start: datetime
    end: datetime
    rows: list[dict[str, Any]] = field(default_factory=list)
    new: list[dict[str, Any]] = field(default_factory=list)
    panes: int = 0
    fired: bool = False
    told: bool = False
    next: int | None = None

    @property
    def of(self) -> tuple[str, datetime]:
        return self.key, self.start


class Plain:
    """Windows one by one, as slow as can be."""

    def __init__(self, emission: Emission, *, sessions: bool) -> None:
        self.emission, self.sessions = emission, sessions
        #: A row at the end of a session is part of it.
        self.behind = 1 if sessions else 0
        self.open: list[Window] = []

    def batch(self, rows: list[dict[str, Any]], mark: int | None) -> dict[str, list[Any]]:
        """Return what comes of a batch: totals with what tells them apart, and late rows."""
        late = []
        was = {w.of: list(w.rows) for w in self.open}
        told = {w.of: w.told for w in self.open}
        windows = [self._window(each) for each in rows]
        for each in self._clusters([*self.open, *windows]):
            if self._closed(max(w.end for w in each), mark):
                late += [w.rows[0]["_a1_0"] for w in each if w not in self.open]
        alive = [w for w in windows if w.rows[0]["_a1_0"] not in late]
        merged, came = [], []
        for each in self._clusters([*self.open, *alive]):
            known = [w for w in each if w in self.open]
            one = Window(each[0].key, min(w.start for w in each), max(w.end for w in each))
            one.rows = sorted(
                (r for w in each for r in w.rows), key=lambda r: (r["__at"], r["__tie"])
            )
            fresh = [r for w in each if w not in self.open for r in w.rows]
            since = [r for w in known for r in w.new]
            one.new = sorted([*since, *fresh], key=lambda r: (r["__at"], r["__tie"]))
            one.panes = max((w.panes for w in known), default=0)
            one.fired = any(w.fired for w in known)
            one.told = any(w.told for w in known if w.start == one.start)
            one.next = min((w.next for w in known if w.next is not None), default=None)
            merged.append((one, bool(known), bool(fresh)))
            if fresh:
                came.append(one)
        gone = set(was) - {w.of for w, _, _ in merged}
        how = self.emission.how
        if how == "final":
            main = [
                (*w.of, w.end, values(w.rows)) for w, _, _ in merged if self._closed(w.end, mark)
            ]
        elif how == "changes":
            main = self._changes(came, was, gone)
        else:
            main = self._panes(merged, mark)
            if not self.emission.increments:
                main += [(*of, "delete") for of in gone if told[of]]
        self.open = [w for w, _, _ in merged if not self._closed(w.end, mark)]
        return {"": main, "late": late}

    def _window(self, each: dict[str, Any]) -> Window:
        start, end = each["__start"], each["__end"]
        if self.sessions:
            start, end = each["__at"], each["__at"] + GAP
        return Window(each["k"], start, end, [each])

    def _clusters(self, windows: list[Window]) -> list[list[Window]]:
        found: list[list[Window]] = []
        for each in sorted(windows, key=lambda w: (w.key, w.start)):
            last = found[-1] if found else None
            if last and last[0].key == each.key and (
                each.start <= max(w.end for w in last)
                if self.sessions
                else each.start == last[0].start
            ):  # fmt: skip
                last.append(each)
            else:
                found.append([each])
        return found

    def _closed(self, end: datetime, mark: int | None) -> bool:
        return mark is not None and micros(end) + self.behind + self.emission.lateness <= mark

    def _changes(self, came: list[Window], was: Any, gone: Any) -> list[Any]:
        found: list[Any] = [(*of, "delete", values(was[of])) for of in gone]
        for each in came:
            if each.of in was:
                found.append((*each.of, "update_preimage", values(was[each.of])))
            kind = "update_postimage" if each.of in was else "insert"
            found.append((*each.of, kind, values(each.rows)))
        return found

    def _panes(self, merged: list[Any], mark: int | None) -> list[Any]:
        found, emission = [], self.emission
        for each, known, _ in merged:
            over = mark is not None and micros(each.end) + self.behind <= mark
            early = False
            if emission.every is not None:
                if each.new and not over:
                    reached = max(micros(each.start), mark or 0)
                    following = (reached // emission.every + 1) * emission.every
                    each.next = each.next if each.next is not None else following
                else:
                    each.next = None
                early = each.next is not None and mark is not None and each.next <= mark
            if emission.count is not None:
                early = len(each.new) >= emission.count
            pane = None
            if over and not each.fired and known:
                pane = "on_time"
            elif over and each.new:
                pane = "late"
            elif not over and each.new and early:
                pane = "early"
            each.fired = each.fired or over
            if pane is None:
                continue
            each.panes += 1
            rows = each.new if emission.increments else each.rows
            kind = None
            if not emission.increments:
                kind = "update_postimage" if each.told else "insert"
            found.append((*each.of, kind, values(rows), pane, each.panes))
            each.new, each.told, each.next = [], True, None
        return found


def values(rows: list[dict[str, Any]]) -> tuple[Any, ...]:
    numbers = [r["_a1_0"] for r in rows]
    return len(numbers), sum(numbers), numbers


def told(emission: Emission, found: list[dict[str, Any]]) -> list[Any]:
    """Return what the logic has told, as the plain computation does."""
    made: list[Any] = []
    for each in found:
        totals = (each["_t0_n"], int(each["_t1_sum"]), each["_t2_told"])
        of = (each["k"], each["from"])
        if emission.how == "final":
            made.append((*of, each["to"], totals))
        elif emission.how == "changes":
            made.append((*of, each["_change_type"], totals))
        elif each.get("_change_type") == "delete":
            made.append((*of, "delete"))
        else:
            panes = (each["pane"], each["pane_number"])
            made.append((*of, each.get("_change_type"), totals, *panes))
    return made


MINUTES = 60_000_000
EMISSIONS = {
    "final": Emission("final"),
    "final with lateness": Emission("final", 15 * MINUTES),
    "changes": Emission("changes"),
    "changes with lateness": Emission("changes", 15 * MINUTES),
    "early by count": Emission("panes", 15 * MINUTES, count=2),
    "early by time": Emission("panes", 15 * MINUTES, every=3 * MINUTES),
    "on time and late": Emission("panes", 15 * MINUTES),
    "increments by count": Emission("panes", 15 * MINUTES, count=2, increments=True),
    "increments by time": Emission("panes", 5 * MINUTES, every=7 * MINUTES, increments=True),
}


@pytest.mark.parametrize("kind", [Driver, Paged])
@pytest.mark.parametrize("sessions", [False, True], ids=["windows", "sessions"])
@pytest.mark.parametrize("emission", EMISSIONS.values(), ids=EMISSIONS)
@settings(deadline=None, max_examples=10)
@given(rows=ROWS)
@example(rows=[("a", 15, True), ("a", 0, True), ("a", 1, False), ("a", 16, True)])
# A row in a session that is there, and one after what that row alone would reach.
@example(rows=[("a", 0, False), ("a", 4, False), ("a", 8, True), ("a", 1, False), ("a", 9, True)])
def test_windows_give_what_a_plain_computation_gives(kind, sessions, emission, rows):
    """Pass: after each batch the same results, the same late rows, and the same windows open."""
    gap = GAP // MICRO if sessions else None
    logic = WindowsLogic(COLUMNS, WINDOWING, emission, gap)
    by = ["k"] if sessions else ["k", "__start"]
    driver = kind(logic, {"input": by}, {"input": ("__at", DELAY // MICRO)}, pages=2)
    plain = Plain(emission, sessions=sessions)
    places = [n + 1 for n, each in enumerate(rows) if each[2]]
    for batch in cut([row(n, *each[:2]) for n, each in enumerate(rows)], places):
        mark = driver.watermark
        check(emission, driver.batch({"input": batch}), plain.batch(batch, mark))
        driver.restart()
    kept = driver.outputs[""]
    before = len(kept)
    driver.advance(FAR)
    check(emission, {"": kept[before:], "late": []}, plain.batch([], FAR))
    assert driver.rows("windows") == []


NEVER_ENDING = {
    "changes": Emission("changes"),
    "by count": Emission("panes", count=3),
    "by time": Emission("panes", every=7 * MINUTES),
    "increments": Emission("panes", count=2, increments=True),
}


@pytest.mark.parametrize("kind", [Driver, Paged])
@pytest.mark.parametrize("emission", NEVER_ENDING.values(), ids=NEVER_ENDING)
@settings(deadline=None, max_examples=10)
@given(rows=ROWS)
def test_totals_for_ever_give_what_a_plain_computation_gives(kind, emission, rows):
    """Pass: without windows, as of one that begins in 1970 and never ends; nothing is late."""
    columns = pl.Schema({n: k for n, k in COLUMNS.items() if n not in ("__start", "__end")})
    logic = WindowsLogic(columns, Windowing(["k"], ACCUMULATORS, None, LATE), emission)
    driver = kind(logic, {"input": ["k"]}, {"input": ("__at", DELAY // MICRO)}, pages=2)
    plain = Plain(emission, sessions=False)
    always = {"__start": datetime(1970, 1, 1, tzinfo=UTC), "__end": BEGIN + timedelta(days=9000)}
    places = [n + 1 for n, each in enumerate(rows) if each[2]]
    for batch in cut([row(n, *each[:2]) for n, each in enumerate(rows)], places):
        mark = driver.watermark
        came = driver.batch({"input": [{n: r[n] for n in columns} for r in batch]})
        told_of = [each | {"from": always["__start"]} for each in came[""]]
        check(emission, {"": told_of, "late": []}, plain.batch([r | always for r in batch], mark))
        driver.restart()


def check(emission: Emission, came: Any, wanted: Any) -> None:
    found = told(emission, came[""])
    assert sorted(found, key=repr) == sorted(wanted[""], key=repr)
    assert sorted(each["_a1_0"] for each in came["late"]) == sorted(wanted["late"])


ORDERED = {
    "sliding": (
        SlidingLogic(COLUMNS, WINDOWING, 7 * MINUTES),
        lambda rows: [
            (r["k"], r["__at"], None, [o for o in rows if r["__at"] - 7 * MINUTE <= o["__at"] <= r["__at"]])
            for r in {r["__at"]: r for r in rows}.values()
        ],
    ),
    "by count": (
        CountedLogic(COLUMNS, WINDOWING, "number", 3),
        lambda rows: [
            (rows[0]["k"], rows[n + 2]["__at"], n // 3 + 1, rows[n : n + 3])
            for n in range(0, len(rows) - 2, 3)
        ],
    ),
    "by one": (
        CountedLogic(COLUMNS, WINDOWING, "number", 1),
        lambda rows: [(r["k"], r["__at"], n + 1, [r]) for n, r in enumerate(rows)],
    ),
    "by count, sliding": (
        SlidingCountLogic(COLUMNS, WINDOWING, "number", 4, 2),
        lambda rows: [
            (rows[0]["k"], rows[n + 3]["__at"], n // 2 + 1, rows[n : n + 4])
            for n in range(0, len(rows) - 3, 2)
        ],
    ),
    "by two, each row": (
        SlidingCountLogic(COLUMNS, WINDOWING, "number", 2, 1),
        lambda rows: [
            (rows[0]["k"], rows[n + 1]["__at"], n + 1, rows[n : n + 2]) for n in range(len(rows) - 1)
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", [Driver, Paged])
@pytest.mark.parametrize("which", ORDERED)
@settings(deadline=None, max_examples=10)
@given(rows=ROWS)
def test_windows_by_rows_give_what_a_plain_computation_gives(kind, which, rows):
    """Pass: the windows of the rows on time, in their order, however they came; the others are late."""
    places = [n + 1 for n, each in enumerate(rows) if each[2]]
    check_by_rows(kind, which, cut([row(n, *each[:2]) for n, each in enumerate(rows)], places))


@pytest.mark.parametrize("kind", [Driver, Paged])
@pytest.mark.parametrize("which", ORDERED)
@pytest.mark.parametrize("together", [1, 2])
def test_a_batch_for_each_row_has_the_same_windows(kind, which, together):
    """Pass: where each row's turn comes alone, and where each second row is at the watermark."""
    batches = [[row(n, "a", n // together)] for n in range(30)]
    check_by_rows(kind, which, batches, delay=timedelta())


def check_by_rows(kind: Any, which: str, batches: Any, delay: timedelta = DELAY) -> None:
    logic, expected = ORDERED[which]
    driver = kind(logic, {"input": ["k"]}, {"input": ("__at", delay // MICRO)}, pages=2)
    on_time, late = [], []
    for batch in batches:
        mark = driver.watermark
        for each in batch:
            (on_time if mark is None or micros(each["__at"]) >= mark else late).append(each)
        driver.batch({"input": batch})
        driver.restart()
    driver.advance(FAR)
    wanted = []
    for key in "ab":
        mine = [r for r in on_time if r["k"] == key]
        wanted += expected(sorted(mine, key=lambda r: (r["__at"], r["__tie"])))
    found = [
        (r["k"], r["to"], r.get("number"), r["_t0_n"], r["_t2_told"]) for r in driver.outputs[""]
    ]
    same = [(k, at, n, len(rows), [r["_a1_0"] for r in rows]) for k, at, n, rows in wanted]
    assert sorted(found, key=repr) == sorted(same, key=repr)
    assert sorted(r["_a1_0"] for r in driver.outputs["late"]) == sorted(r["_a1_0"] for r in late)
    assert not driver.rows("waiting")


@pytest.mark.parametrize("which", ["sliding", "by count"])
@pytest.mark.parametrize("together", [1, 8])
def test_a_large_number_takes_nothing_from_windows_that_it_is_not_in(which, together):
    """Pass: sums of floating-point numbers are those of their windows' rows, however they were cut."""
    columns = pl.Schema(
        {"k": pl.String(), "__at": TIME, "__tie": pl.Binary(), "_a0_0": pl.Float64()}
    )
    calls = [next(read_total("t", "sum(v)").calls)]
    totals = accumulators_of(calls, columns, {"__at": TIME, "__tie": pl.Binary()})
    windowing = Windowing(["k"], totals, ("from", "to"), {"k": pl.String()})
    logic = {
        "sliding": SlidingLogic(columns, windowing, 2 * MINUTES),
        "by count": SlidingCountLogic(columns, windowing, "number", 3, 1),
    }[which]
    values = [-0.09, 1e18, -1e18, 1e18, 4.65, 4.81, 4.31, 2.5]
    driver = Driver(logic, {"input": ["k"]}, {"input": ("__at", 0)}, pages=2)
    rows = [
        {"k": "a", "__at": BEGIN + n * MINUTE, "__tie": bytes([n]), "_a0_0": value}
        for n, value in enumerate(values)
    ]
    for batch in cut(rows, list(range(together, len(rows), together))):
        driver.batch({"input": batch})
    driver.advance(FAR)
    found = {each["to"]: each["_t0_sum"] for each in driver.outputs[""]}
    assert [found[BEGIN + n * MINUTE] for n in (6, 7)] == [4.65 + 4.81 + 4.31, 4.81 + 4.31 + 2.5]


def test_a_window_of_very_many_rows_is_totalled_by_portions(monkeypatch):
    """Pass: with room for ten rows of windows at a time, all have their totals."""
    monkeypatch.setattr("mainstem_operators_windows.ordered_logic._ROWS", 10)
    for which in ("sliding", "by count, sliding"):
        check_by_rows(Driver, which, [[row(n, "ab"[n % 2], n // 2) for n in range(40)]])


def test_a_row_at_the_end_of_a_session_is_part_of_it_whenever_it_comes():
    """Pass: not late, with the watermark at that time, it makes the session longer, as in one batch."""
    for places in ([], [2], [2, 2]):
        logic = WindowsLogic(COLUMNS, WINDOWING, Emission("final"), GAP // MICRO)
        driver = Driver(logic, {"input": ["k"]}, {"input": ("__at", DELAY // MICRO)}, pages=2)
        for batch in cut([row(0, "a", 0), row(1, "a", 15), row(2, "a", 5)], places):
            driver.batch({"input": batch})
        driver.advance(FAR)
        found = sorted((each["from"], each["to"], each["_t0_n"]) for each in driver.outputs[""])
        at = [BEGIN + n * MINUTE for n in (0, 10, 15, 20)]
        assert found == [(at[0], at[1], 2), (at[2], at[3], 1)]
        assert driver.outputs["late"] == []


@settings(deadline=None, max_examples=20)
@given(rows=ROWS)
@pytest.mark.in_turn
def test_whole_numbers_roll_to_what_is_added_up_anew(rows):
    """Pass: counts and sums alone, which roll, are those beside a list, which does not."""
    alone = Windowing(["k"], ACCUMULATORS[:2], ("from", "to"), LATE)
    assert alone.rolls
    assert not WINDOWING.rolls
    places = [n + 1 for n, each in enumerate(rows) if each[2]]
    batches = cut([row(n, *each[:2]) for n, each in enumerate(rows)], places)
    for made in (
        lambda windowing: SlidingLogic(COLUMNS, windowing, 7 * MINUTES),
        lambda windowing: SlidingCountLogic(COLUMNS, windowing, "number", 4, 2),
    ):
        found = []
        for windowing in (alone, WINDOWING):
            driver = Driver(made(windowing), {"input": ["k"]}, {"input": ("__at", DELAY // MICRO)})
            for batch in batches:
                driver.batch({"input": batch})
            driver.advance(FAR)
            names = ("k", "from", "to", "_t0_n", "_t1_sum", "_t1_n")
            found.append(sorted(repr([each[n] for n in names]) for each in driver.outputs[""]))
        assert found[0] == found[1]
