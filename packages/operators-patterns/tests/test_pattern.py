"""Patterns as text: what they say, and what is told of those that say nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from mainstem_operators_patterns.automaton import UnfitPatternError, compiled
from mainstem_operators_patterns.pattern import (
    Between,
    Choice,
    PatternError,
    Repeat,
    Sequence,
    Variable,
    read_pattern,
)

A, B, C = Variable("a"), Variable("b"), Variable("c")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a", A),
        (" a  b ", Sequence((A, B))),
        ("a | b c", Choice((A, Sequence((B, C))))),
        ("(a | b) c", Sequence((Choice((A, B)), C))),
        ("a{2,5} b", Sequence((Repeat(A, 2, 5), B))),
        ("a{ 2 , }", Repeat(A, 2, None)),
        ("a{,3}?", Repeat(A, 0, 3, greedy=False)),
        ("a{3}", Repeat(A, 3, 3)),
        ("a? b*? c+", Sequence((Repeat(A, 0, 1), Repeat(B, 0, None, greedy=False), Repeat(C, 1, None)))),
        ("a ... b", Sequence((A, Between(), B))),
        ("a !c b", Sequence((A, Between("c"), B))),
        ("a {- b c -}", Sequence((A, Sequence((Variable("b", hidden=True), Variable("c", hidden=True)))))),
        ("permute(a, b)", Choice((Sequence((A, B)), Sequence((B, A))))),
        ("((a))+", Repeat(A, 1, None)),
    ],
)  # fmt: skip
def test_what_patterns_say(text, node):
    """Pass: each sign is what it is in SQL, and as much as can be unless `?` stands behind it."""
    assert read_pattern(text).node == node


def test_what_must_not_follow():
    """Pass: at the end alone, with how long or without."""
    found = read_pattern("a b !c within 1 hour")
    assert found.absence is not None
    assert (found.absence.name, found.absence.within) == ("c", timedelta(hours=1))
    assert found.names == ("a", "b", "c")
    assert read_pattern("a !b").absence.within is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected a variable, ( or {-, found 'the end', at 1"),
        ("a |", "found 'the end', at 4"),
        ("a b)", "expected the end, found ')', at 4"),
        ("(a b", "expected ), found 'the end', at 5"),
        ("a{5,2}", "{5,2} is no quantity, at 2"),
        ("a{}", "expected a number, at 2"),
        ("a{0}", "is no quantity"),
        ("a **", "expected the end, found '*', at 4"),
        ("a ; b", "expected a variable or a sign of patterns, at 3"),
        ("^ a", "^ has no place in a stream, which has no ends, at 1"),
        ("a $", "expected the end, found '$', at 3"),
        ("a ! b d !c within soon", "expected a duration, such as 1 hour, at 18"),
        ("a !b within 1 hour c", "expected the end after what must not follow"),
        ("a (b !c) d", "expected the end after what must not follow, found ')'"),
        ("PERMUTE(a b)", "expected ), found 'b', at 11"),
        ("permute(a,b,c,d,e,f)", "PERMUTE of more than 5"),
        ("{- a", "expected -}, found 'the end'"),
    ],
)
def test_what_says_nothing_is_told(text, told):
    """Pass: with its place, and what was expected there."""
    with pytest.raises(PatternError) as error:
        read_pattern(text)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *(
            (text, "no row at all")
            for text in ("a?", "a* b*", "(a | b?)", "a{0,3}", "(a?){2}", "(a*)*")
        ),
        ("a? ... b", "begin with rows between"),
        ("((a{10}){10}){10}", "more than 200 rows"),
    ],
)
def test_patterns_that_fit_nothing_are_refused(text, told):
    """Pass: those that would match between any two rows, or begin there; those that quantities make too large."""
    with pytest.raises(UnfitPatternError, match=told):
        compiled(read_pattern(text))


def test_a_picture():
    """Pass: each place, and each way, as Mermaid has it."""
    assert compiled(read_pattern("a !c b+")).mermaid() == (
        "stateDiagram-v2\n    s0: a\n    s1: not c\n    s2: b\n    s3: b\n    [*] --> s0\n    s0 --> s2\n"
        "    s0 --> s1\n    s1 --> s2\n    s1 --> s1\n    s2 --> s3\n    s2 --> [*]\n    s3 --> s3\n"
        "    s3 --> [*]\n"
    )
