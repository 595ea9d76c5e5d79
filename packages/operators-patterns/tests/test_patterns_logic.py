"""`match_patterns` without Spark: patterns that come and go, beside each by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem_keyed_state.changes import DELETED, SEQUENCE
from mainstem_keyed_state.testing import Driver, Paged, cut, micros
from mainstem_keyed_state.times import TIME
from mainstem_operators_patterns.expressions import Reference, read_expression
from mainstem_operators_patterns.match_logic import AT, HOLDS, TIE, MatchLogic, Told, value
from mainstem_operators_patterns.matching import Skip
from mainstem_operators_patterns.patterns_logic import PATTERNS, TEXT, PatternsLogic
from mainstem_operators_patterns.vocabulary import Vocabulary

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, MICRO = timedelta(minutes=1), timedelta(microseconds=1)
FAR = micros(START + timedelta(days=400))
ROWS = pl.Schema(
    {"k": pl.String(), AT: TIME, TIE: pl.Int64(), HOLDS: pl.Int64(), value(0): pl.Int64()}
)
PORT = pl.Schema(
    {
        "id": pl.String(),
        TEXT: pl.String(),
        "_commit_version": pl.Int64(),
        SEQUENCE: pl.Int64(),
        DELETED: pl.Boolean(),
    }
)
NAMES = ("a", "b", "c", "d")
VOCABULARY = Vocabulary(
    NAMES,
    {
        **{name: read_expression(name, NAMES, own=name) for name in "abc"},
        "d": read_expression("v > avg(a.v)", NAMES, own="d"),
    },
    Skip("last"),
    10 * MINUTE // MICRO,
)
ASKED = [(Reference("collect_list", None, "v"), value(0))]
TEXTS = [
    "a b",
    "a+ b",
    "a ... c",
    "a b !c",
    "(a | b){2}",
    "b {- c? -} a",
    "a d",
    "a !c within 3 minutes",
]


def row(number: int, key: str, minute: int, holds: int) -> dict[str, Any]:
    return {"k": key, AT: START + minute * MINUTE, TIE: number, HOLDS: holds, value(0): number}


def change(number: int, name: str, text: str | None) -> dict[str, Any]:
    return {
        "id": name,
        TEXT: text,
        "_commit_version": number,
        SEQUENCE: number,
        DELETED: text is None,
    }


def told(named: bool) -> Told:
    return Told(["k"], [], ASKED, timeouts=True, named={"id": pl.String()} if named else {})


def many() -> PatternsLogic:
    return PatternsLogic(ROWS, PORT, VOCABULARY, [value(0)], told(named=True))


def driven(made: Any, kind: type = Driver) -> Any:
    keys = {"input": ["k"], PATTERNS: ["id"]}
    return kind(made, keys, {"input": (AT, 0)}, pages=2)


EVENTS = st.lists(
    st.tuples(st.sampled_from("xy"), st.integers(0, 25), st.integers(0, 7)), max_size=24
)


def outcomes(driver: Any, name: str | None = None) -> Any:
    return {
        output: sorted(
            (tuple(v for n, v in r.items() if n not in ("id", "match_id")) for r in rows
             if name is None or r["id"] == name),
            key=repr,
        )
        for output, rows in driver.outputs.items()
        if output != "rejected"
    }  # fmt: skip


@settings(deadline=None, max_examples=120)
@given(
    EVENTS, st.lists(st.integers(0, 24), max_size=4), st.booleans(),
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4),
)  # fmt: skip
@pytest.mark.in_turn
def test_each_pattern_matches_as_if_it_were_alone(events, cuts, paged, texts):
    """Pass: the matches and timeouts of each are those of `match` with it; ids tell all apart."""
    kind = Paged if paged else Driver
    rows = sorted((row(n, *each) for n, each in enumerate(events)), key=lambda r: (r[AT], r[TIE]))
    driver = driven(many(), kind)
    driver.batch({PATTERNS: [change(1, f"p{n}", text) for n, text in enumerate(texts)]})
    alone = []
    for text in texts:
        made = MatchLogic(ROWS, VOCABULARY.read(text), [value(0)], told(named=False))
        alone.append(driven(made, kind))
    for each in (driver, *alone):
        for batch in cut(rows, sorted(set(cuts))):
            mark = each.watermark
            each.batch({"input": [r for r in batch if mark is None or micros(r[AT]) >= mark]})
            each.restart()
        each.advance(FAR)
    for number, one in enumerate(alone):
        assert outcomes(driver, f"p{number}") == outcomes(one)
    ids = [r["match_id"] for r in driver.outputs[""]]
    assert len(ids) == len(set(ids))
    assert paged or driver.size() == 0


@pytest.mark.parametrize("kind", [Driver, Paged])
def test_patterns_come_and_go(kind):
    """Pass: a new one begins with the rows whose turn comes with it; one that is taken away, or says something else now,
    forgets what it had begun, and the others do not; one that comes again as it was, or an older change, does nothing."""
    a, b, c = 1, 2, 4
    driver = driven(many(), kind)

    def step(*rows, patterns=()):
        driver.batch({"input": [row(m, "x", m, h) for m, h in rows], PATTERNS: list(patterns)})
        driver.restart()

    step((0, a), (1, 0), patterns=[change(1, "stays", "a ... c"), change(1, "goes", "a ... b")])
    step((2, a), (3, 0), patterns=[change(2, "new", "a ... b"), change(1, "stays", "b a")])
    step((4, 0), patterns=[change(3, "goes", None), change(3, "stays", "a ... c")])
    step((5, b), (6, 0), patterns=[change(2, "goes", "a ... b")])
    step((7, c), (8, 0), patterns=[change(4, "new", "b ... c")])
    step((9, 0))
    driver.advance(FAR)
    found = sorted((r["id"], tuple(r["__m0"])) for r in driver.outputs[""])
    assert found == [("new", (5, 7)), ("stays", (0, 7))]
    assert {r["id"] for r in driver.rows(PATTERNS) if not r[DELETED]} == {"stays", "new"}


@pytest.mark.parametrize("kind", [Driver, Paged])
def test_patterns_that_can_not_be_read_are_refused(kind):
    """Pass: once each, with the reason and the text; what was there of that id is no pattern any more."""
    driver = driven(many(), kind)
    driver.batch({PATTERNS: [change(1, "p", "a b")]})
    wrong = ["a (", "a e", "c d", "a !d b", "a b !c within 1 hour", "a?"]
    driver.batch({PATTERNS: [change(n, "p", text) for n, text in enumerate(wrong, 2)][-1:]})
    driver.batch({PATTERNS: [change(9, f"q{n}", text) for n, text in enumerate(wrong)]})
    found = {(r["payload"].decode(), r["reason"]) for r in driver.outputs["rejected"]}
    assert len(driver.outputs["rejected"]) == 1 + len(wrong)
    reasons = dict(found)
    assert "expected" in reasons["a ("]
    assert "there is no 'e' in `define`: a, b, c, d" in reasons["a e"]
    assert "d looks at a, which is not in it" in reasons["c d"]
    assert "told by its row alone" in reasons["a !d b"]
    assert "waits longer than `within`" in reasons["a b !c within 1 hour"]
    assert "matches no row" in reasons["a?"]
    driver.batch({"input": [row(0, "x", 0, 1), row(1, "x", 1, 2)]})
    driver.advance(FAR)
    assert not driver.outputs[""]


@pytest.mark.parametrize("kind", [Driver, Paged])
def test_a_pattern_that_comes_again_begins_anew(kind):
    """Pass: what it had begun before it was taken away is forgotten, for keys that had rows meanwhile and for others."""
    driver = driven(many(), kind)

    def step(rows, *changes):
        driver.batch({"input": [row(m, k, m, h) for k, m, h in rows], PATTERNS: list(changes)})
        driver.restart()

    step([("x", 0, 1), ("y", 0, 1)], change(1, "p", "a ... b"))
    step([("x", 1, 0), ("y", 1, 0)])
    step([("y", 2, 0)], change(2, "p", None))
    step([("y", 3, 0)], change(3, "p", "a ... b"))
    step([("x", 4, 2), ("y", 4, 2)])
    driver.advance(FAR)
    assert not driver.outputs[""]


def test_patterns_that_are_nested_too_deeply_are_refused():
    """Pass: a text of thousands of parentheses is a row that is refused."""
    driver = driven(many())
    driver.batch({PATTERNS: [change(1, "p", "(" * 5000 + "a" + ")" * 5000)]})
    (refused,) = driver.outputs["rejected"]
    assert "nested too deeply" in refused["reason"]


@pytest.mark.parametrize("alone", [False, True])
def test_a_pattern_with_too_many_partial_matches_is_told_and_others_go_on(monkeypatch, alone):
    """Pass: what it has begun of the key is let go of, with the pattern, also of the only one; another one
    matches."""
    from mainstem_operators_patterns import matching

    monkeypatch.setattr(matching, "_MOST", 5)
    driver = driven(many())
    changes = [change(1, "p", "a ... b ... c"), *([] if alone else [change(1, "q", "b")])]
    driver.batch({PATTERNS: changes})
    rows = [row(m, "x", m, 1) for m in range(9)]
    driver.batch({"input": [*rows, row(9, "x", 9, 2)]})
    driver.advance(FAR)
    assert [r["id"] for r in driver.outputs.get("", ())] == ([] if alone else ["q"])
    assert {r["payload"] for r in driver.outputs["rejected"]} == {b"a ... b ... c"}
    assert "more than 5 partial matches" in driver.outputs["rejected"][0]["reason"]


def test_definitions_that_a_pattern_does_not_use_cost_it_nothing():
    """Pass: its partial matches are those of a vocabulary without them."""
    rules = VOCABULARY.read("a ... b ... c")
    assert (rules.definitions, list(rules.references)) == ({}, [])
    assert list(VOCABULARY.read("a d").values) == VOCABULARY.values
