"""`match` without Spark: against a plain computation, for any patterns, rows and batches."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mainstem_keyed_state.testing import Driver, Paged, cut, micros
from mainstem_keyed_state.times import TIME
from mainstem_operators_patterns.automaton import UnfitPatternError, compiled
from mainstem_operators_patterns.expressions import (
    Definition,
    Reference,
    read_expression,
    referred,
)
from mainstem_operators_patterns.match_logic import (
    AT,
    HOLDS,
    TIE,
    MatchLogic,
    Told,
    _kind,
    _measured,
    value,
)
from mainstem_operators_patterns.matching import Rules, Skip
from mainstem_operators_patterns.pattern import read_pattern
from plain_matching import matches

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, MICRO = timedelta(minutes=1), timedelta(microseconds=1)
FAR = micros(START + timedelta(days=400))
ROWS = pl.Schema(
    {"k": pl.String(), AT: TIME, TIE: pl.Int64(), HOLDS: pl.Int64(), value(0): pl.Int64()}
)
SKIPS = {
    "past_last_row": Skip("last"),
    "to_next_row": Skip("next"),
    "to_first b": Skip("first_of", "b"),
    "to_last b": Skip("last_of", "b"),
}
ASKED = [
    (Reference("count", "b", ""), ""),
    (Reference("first", "a", "v"), value(0)),
    (Reference("collect_list", None, "v"), value(0)),
]


def logic(text, within, skip="past_last_row", define=None, rows=(), timeouts=True):
    pattern = read_pattern(text)
    names = pattern.names
    looking = {name: read_expression(sql, names, own=name) for name, sql in (define or {}).items()}
    absence = pattern.absence
    absent = None
    if absence:
        absent = (
            names.index(absence.name),
            -1 if absence.within is None else absence.within // MICRO,
        )
    rules = Rules(
        compiled(pattern), names, SKIPS[skip], None if within is None else within // MICRO,
        {names.index(name): Definition(each) for name, each in looking.items()},
        list(referred(iter(looking.values()))), absent,
    )  # fmt: skip
    # Of the values that definitions need there is one, v.
    assert set(rules.values) <= {"v"}
    told = Told(["k"], list(rows), ASKED, timeouts)
    return MatchLogic(ROWS, rules, [value(0)] * len(rules.values), told), pattern


def row(number: int, key: str, minute: int, holds: int) -> dict[str, Any]:
    return {"k": key, AT: START + minute * MINUTE, TIE: number, HOLDS: holds, value(0): number}


def played(made: MatchLogic, rows: list[Any], cuts: list[int], kind: type = Driver) -> Any:
    driver = kind(made, {"input": ["k"]}, {"input": (AT, 5 * MINUTE // MICRO)}, pages=2)
    for batch in cut(rows, cuts):
        mark = driver.watermark
        driver.batch({"input": [r for r in batch if mark is None or micros(r[AT]) >= mark]})
        driver.restart()
    driver.advance(FAR)
    return driver


atoms = st.sampled_from(["a", "b", "c"])
quantities = st.sampled_from(
    ["", "?", "*", "+", "{2}", "{1,2}", "{,2}", "??", "*?", "+?", "{1,3}?"]
)


@st.composite
def patterns(draw: Any, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["item", "sequence", "choice"] if depth else ["item"]))
    if kind == "item":
        return draw(atoms) + draw(quantities)
    parts = draw(st.lists(patterns(depth - 1), min_size=2, max_size=3))
    if kind == "choice":
        return f"({' | '.join(parts)}){draw(quantities)}"
    joints = [draw(st.sampled_from([" ", " ", " ... ", " !c "])) for _ in parts[1:]]
    text = parts[0] + "".join(j + p for j, p in zip(joints, parts[1:], strict=True))
    return f"({text}){draw(quantities)}" if draw(st.booleans()) else text


ABSENCES = st.sampled_from(["", "", "", " !b", " !c within 3 minutes"])
EVENTS = st.lists(
    st.tuples(st.sampled_from("xy"), st.integers(0, 25), st.integers(0, 7)), max_size=24
)


@example(
    "a ... (a? a?)? a", "", 1, "past_last_row", [("y", 0, 1), ("y", 0, 0), ("y", 0, 1)], [], False
)
@example(
    "a a? (a | b*?)*", "", 1, "past_last_row", [("y", 0, 1), ("y", 0, 2), ("y", 0, 2)], [], False
)
@example("a a? (a | b??)?", "", 1, "past_last_row", [("y", 0, 1), ("y", 0, 2)], [], False)
@settings(deadline=None, max_examples=300)
@given(
    patterns(), ABSENCES, st.integers(1, 12), st.sampled_from(sorted(SKIPS)), EVENTS,
    st.lists(st.integers(0, 24), max_size=4), st.booleans(),
)  # fmt: skip
def test_matches_are_those_of_a_plain_computation(text, absence, within, skip, events, cuts, paged):
    """Pass: any pattern, rows of two keys in any order and batches, restarts between: the same matches, in the same order for
    each key, with the same measures."""
    length = within * MINUTE
    if "b" not in text and skip.endswith(" b"):
        skip = "to_next_row"
    try:
        made, pattern = logic(text + absence, length, skip)
    except UnfitPatternError:
        return
    rows = sorted((row(n, *each) for n, each in enumerate(events)), key=lambda r: r[AT])
    # Within the delay rows come in any order.
    rows = sorted(rows, key=lambda r: (r[AT] + (r[TIE] % 3) * MINUTE, r[TIE]))
    driver = played(made, rows, sorted(set(cuts)), Paged if paged else Driver)
    for key in "xy":
        mine = sorted((r for r in rows if r["k"] == key), key=lambda r: (r[AT], r[TIE]))

        def holds(name: str, at: int, _: Any, mine: Any = mine) -> bool:
            return bool(mine[at][HOLDS] >> pattern.names.index(name) & 1)

        expected = [
            (
                mine[path[0][0]][AT],
                mine[path[-1][0]][AT],
                sum(name == "b" for _, name in path),
                next((mine[at][value(0)] for at, name in path if name == "a"), None),
                [mine[at][value(0)] for at, _ in path],
            )
            for path in matches(pattern, [r[AT] for r in mine], holds, length, skip)
        ]
        found = [
            (r["match_start"], r["match_end"], r["__m0"], r["__m1"], r["__m2"])
            for r in driver.outputs[""]
            if r["k"] == key
        ]
        assert found == expected
    ids = [r["match_id"] for r in driver.outputs[""]]
    assert len(ids) == len(set(ids))
    assert paged or driver.size() == 0


class OneVersionAgo(MatchLogic):
    """As it was while rows were kept whole where somebody read those that came late."""

    version = 1

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        for name in ("waiting", "rows"):
            table = self.tables[name]
            *held, last = table.columns.items()
            columns = pl.Schema([*held, ("note", pl.String()), last])
            self.tables[name] = replace(table, columns=columns)


@settings(deadline=None, max_examples=50)
@given(EVENTS, st.integers(0, 24))
def test_a_run_goes_on_from_the_state_of_an_earlier_version(events, at):
    """Pass: what waits, and what partial matches hold, gives the same matches as without the change."""
    events = sorted(events, key=lambda e: e[1])
    made, _ = logic("a b+ c", 12 * MINUTE)
    rules, told = made._book.rules[b""], made._told
    schema = pl.Schema({**ROWS, "note": pl.String()})

    def run(first: type[MatchLogic]) -> Any:
        driver = Paged(
            first(schema, rules, [], told), {"input": ["k"]}, {"input": (AT, 5 * MINUTE // MICRO)}
        )
        rows = [{**row(n, *each), "note": "x"} for n, each in enumerate(events)]
        driver.batch({"input": rows[:at]})
        driver.batch()
        driver.restart(MatchLogic(schema, rules, [], told))
        driver.batch({"input": rows[at:]})
        driver.advance(FAR)
        return driver.outputs

    assert run(OneVersionAgo) == run(MatchLogic)


@settings(deadline=None, max_examples=150)
@given(EVENTS, st.lists(st.integers(0, 24), max_size=4), st.lists(st.integers(0, 24), max_size=4))
def test_batches_do_not_matter(events, one, two):
    """Pass: matches, their rows and what took too long are the same for any batches, with definitions that look back too."""
    define = {"b": "v > a.v AND v < 3 + avg(a.v) * count(*)"}
    rows = sorted((row(n, *each) for n, each in enumerate(events)), key=lambda r: r[AT])

    def run(cuts):
        made, _ = logic("a+ b (c | b)?", 6 * MINUTE, "to_next_row", define, rows=["k", AT])
        found = played(made, rows, sorted(set(cuts))).outputs
        return {name: sorted(each, key=str) for name, each in found.items()}

    assert run(one) == run(two)


@settings(deadline=None, max_examples=200)
@given(EVENTS, st.lists(st.integers(0, 24), max_size=3))
def test_definitions_look_at_rows_before(events, cuts):
    """Pass: averages, counts, first, last and previous rows of a variable or of all, the row itself among those of its own
    variable; the preferred way is given up where a definition does not hold."""
    define = {
        "a": "count(a) <= 3 AND (prev(v) IS NULL OR v > prev(v))",
        "b": "v > avg(a.v) AND v - first(v) < 2 * count(*)",
    }
    made, pattern = logic("a+ b", 15 * MINUTE, define=define)
    rows = sorted((row(n, *each) for n, each in enumerate(events)), key=lambda r: r[AT])
    driver = played(made, rows, sorted(set(cuts)))
    for key in "xy":
        mine = sorted((r for r in rows if r["k"] == key), key=lambda r: (r[AT], r[TIE]))
        v = [r[value(0)] for r in mine]

        def holds(name: str, at: int, path: Any, v: Any = v) -> bool:
            own = [v[n] for n, each in path if each == name]
            every = [v[n] for n, _ in path]
            if name == "a":
                return len(own) + 1 <= 3 and (not every or v[at] > every[-1])
            others = [v[n] for n, each in path if each == "a"]
            first = every[0] if every else v[at]
            average = sum(others) / len(others) if others else None
            return average is not None and v[at] > average and v[at] - first < 2 * (len(every) + 1)

        expected = [
            [v[at] for at, _ in path]
            for path in matches(pattern, [r[AT] for r in mine], holds, 15 * MINUTE)
        ]
        assert [r["__m2"] for r in driver.outputs[""] if r["k"] == key] == expected


def test_what_took_too_long_is_told():
    """Pass: once for each first row, how far it came; nothing of what another match has taken, or that failed otherwise."""
    made, _ = logic("a b ... c", 5 * MINUTE)
    a, b, c = 1, 2, 4
    events = [(0, a), (1, b), (2, 0), (10, a), (11, 0), (20, a), (21, b), (22, c), (30, a)]
    rows = [row(n, "x", minute, holds) for n, (minute, holds) in enumerate(events)]
    driver = played(made, rows, [3, 6])
    told = [
        ((r["match_start"] - START) // MINUTE, (r["match_end"] - START) // MINUTE, r["rows"], r["reached"])
        for r in driver.outputs["timeouts"]
    ]  # fmt: skip
    assert told == [(0, 5, 2, "b"), (30, 35, 1, "a")]
    assert [r["match_end"] for r in driver.outputs[""]] == [START + 22 * MINUTE]


def test_all_rows_of_a_match():
    """Pass: each with its variable and number, without those that are not to come out."""
    made, _ = logic("a {- b -} c", 5 * MINUTE, rows=["k", TIE])
    rows = [row(n, "x", n, holds) for n, holds in enumerate((1, 2, 4))]
    found = played(made, rows, []).outputs[""]
    assert [(r["match_row"], r["classifier"], r[TIE]) for r in found] == [(1, "a", 0), (2, "c", 2)]
    assert {(r["__m0"], tuple(r["__m2"])) for r in found} == {(1, (0, 1, 2))}
    assert len({r["match_id"] for r in found}) == 1


def test_a_key_may_have_the_name_of_a_column_that_tells_variables():
    """Pass: matches and courses that took too long have the key's own value."""
    rows = pl.Schema(
        {"classifier": pl.String(), **{n: kind for n, kind in ROWS.items() if n != "k"}}
    )
    pattern = read_pattern("a b")
    rules = Rules(compiled(pattern), pattern.names, Skip("last"), 5 * MINUTE // MICRO)
    made = MatchLogic(rows, rules, [], Told(["classifier"], [], [], timeouts=True))
    driver = Driver(made, {"input": ["classifier"]}, {"input": (AT, 0)}, pages=2)
    came = [(0, 1), (1, 2), (2, 1)]
    given = [{**row(n, "", n, holds), "classifier": "svm"} for n, holds in came]
    driver.batch({"input": [{n: r[n] for n in rows} for r in given]})
    driver.advance(FAR)
    assert [r["classifier"] for r in driver.outputs[""]] == ["svm"]
    assert [(r["classifier"], r["reached"]) for r in driver.outputs["timeouts"]] == [("svm", "a")]


def test_what_is_told_of_late_rows_alone_is_not_kept():
    """Pass: state has the same columns whether somebody reads the late rows or not."""
    made, _ = logic("a b", 5 * MINUTE)
    more = MatchLogic(
        pl.Schema({**ROWS, "note": pl.String()}), made._book.rules[b""], [], made._told
    )
    assert {n: t.columns for n, t in more.tables.items()} == {
        n: t.columns for n, t in made.tables.items()
    }


@pytest.mark.parametrize(
    ("function", "kind", "values", "found"),
    [
        ("sum", pl.Int32(), [2**31 - 1, 1], 2**31),
        ("sum", pl.Int64(), [2**63 - 1, 1], None),
        ("sum", pl.Int64(), [2**62, 2**62 - 1], 2**63 - 1),
        ("sum", pl.Float32(), [16777216.0, 1.0], 16777217.0),
        ("sum", pl.Decimal(38, 0), [Decimal(10**38 - 1), Decimal(1)], None),
        ("sum", pl.Decimal(10, 2), [Decimal("99999999.99"), Decimal("0.01")], Decimal("100000000.00")),
        ("sum", pl.Int64(), [None, None], None),
        ("sum", pl.Int64(), [None, 3], 3),
        ("avg", pl.Int8(), [127, 127], 127.0),
        ("max", pl.Float64(), [1.0, math.nan], math.nan),
        ("min", pl.Float64(), [1.0, math.nan], 1.0),
    ],
)  # fmt: skip
def test_measures_are_exact(function, kind, values, found):
    """Pass: no sum wraps or is rounded in the values' own type; one that its type can't hold is null; NaN is the
    greatest number."""
    rows = pl.DataFrame({"v": pl.Series(values, dtype=kind)})
    reference = Reference(function, None, "v")
    told = rows.select(_measured(reference, "v", _kind(reference, kind)).alias("it"))["it"].item()
    assert repr(told) == repr(found)


def test_state_is_what_has_begun():
    """Pass: rows that begin nothing are let go of at once, and those that do when their time is over."""
    made, _ = logic("a b c", 5 * MINUTE)
    driver = Driver(made, {"input": ["k"]}, {"input": (AT, 0)}, pages=2)
    driver.batch({"input": [row(n, "x", n, 2) for n in range(20)]})
    driver.batch({"input": [row(20, "x", 20, 1), row(21, "x", 21, 2)]})
    driver.batch({"input": [row(22, "y", 22, 2)]})
    driver.batch()
    (course,) = driver.rows("courses")
    assert (course["rows"], course["reached"], course["state"]) == (2, "b", "begun")
    assert len(driver.rows("rows")) == 2
    driver.advance(micros(START + 25 * MINUTE))
    assert driver.size() == 0


@pytest.mark.parametrize("seed", range(3))
def test_many_rows_of_one_key(seed):
    """Pass: thousands of rows in a batch, of which most begin something, as in a plain computation."""
    dice = random.Random(seed)
    made, pattern = logic("a{2,3} b", 30 * MINUTE)
    rows = [row(n, "x", n, dice.choice([1, 1, 2, 3, 0])) for n in range(3000)]
    driver = played(made, rows, [1000])

    def holds(name: str, at: int, _: Any) -> bool:
        return bool(rows[at][HOLDS] >> pattern.names.index(name) & 1)

    expected = matches(pattern, [r[AT] for r in rows], holds, 30 * MINUTE)
    assert [r["__m2"] for r in driver.outputs[""]] == [[n for n, _ in path] for path in expected]


def test_variables_that_are_not_told_apart():
    """Pass: rows that are of two variables at once do not double what is alive, as long as totals are the same; where they are
    not, it is told before memory is full."""
    from mainstem_operators_patterns import matching

    rows = [row(n, "x", n, 3) for n in range(60)] + [row(60, "x", 60, 7)]
    made, _ = logic("(a | b)+ c", 90 * MINUTE, define={"c": "max(v) > 59 AND v > prev(v)"})
    (found,) = played(made, rows, []).outputs[""]
    assert found["__m2"] == list(range(61))
    before, matching._MOST = matching._MOST, 1000
    try:
        made, _ = logic("(a | b)+ c", 90 * MINUTE, define={"c": "max(v) > 59 AND v > sum(a.v)"})
        with pytest.raises(ValueError, match="more than 1,000 partial matches"):
            played(made, rows, [])
    finally:
        matching._MOST = before
