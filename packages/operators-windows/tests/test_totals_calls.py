"""How totals are read: which aggregate functions are in them, and what is refused."""

from __future__ import annotations

import pytest
from mainstem import OptionError
from mainstem_operators_windows.totals.calls import Call, read_total
from mainstem_operators_windows.totals.functions import inputs_of


def read(text):
    total = read_total("t", text)
    return total.sql({call: f"<{call.function}>" for call in total.calls}), [*total.calls]


@pytest.mark.parametrize(
    ("text", "around", "functions"),
    [
        ("count(*)", "(<count>)", ["count"]),
        ("SUM (a) / Count(b)", "(<sum>) / (<count>)", ["sum", "count"]),
        ("round(avg(x), 2)", "round((<avg>), 2)", ["avg"]),
        ("concat('sum(a)', \"max(b)\", `min(c)`, max(d))",
         "concat('sum(a)', \"max(b)\", `min(c)`, (<max>))", ["max"]),
        ("max(a) /* min(b) */ -- sum(c)\n", "(<max>) /* min(b) */ -- sum(c)\n", ["max"]),
        ("count + first + max(a)", "count + first + (<max>)", ["max"]),
        ("s.max + max(s.min)", "s.max + (<max>)", ["max"]),
        ("concat(r'\\', max(a), 'it''s')", "concat(r'\\', (<max>), 'it''s')", ["max"]),
        ("max(transform(a, x -> x + 1)[0])", "(<max>)", ["max"]),
    ],
)  # fmt: skip
def test_functions_are_found_and_what_is_around_them_stays(text, around, functions):
    """Pass: not those in texts, names, comments and fields."""
    found, calls = read(text)
    assert found == around
    assert [call.function for call in calls] == functions


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("count(*)", Call("count", ())),
        ("count(DISTINCT a, b)", Call("count", ("a", "b"), distinct=True)),
        ("sum(ALL a)", Call("sum", ("a",))),
        ("max(f(a, b))", Call("max", ("f(a, b)",))),
        ("sum(a) FILTER (WHERE b > (1))", Call("sum", ("a",), where="b > (1)")),
        ("first(a) IGNORE NULLS", Call("first", ("a",), ignores_nulls=True)),
        ("last(a, true)", Call("last", ("a",), ignores_nulls=True)),
        ("first(a) respect nulls", Call("first", ("a",))),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY a DESC) FILTER (WHERE b)",
         Call("percentile_cont", ("0.5",), where="b", order="a", descending=True)),
    ],
)  # fmt: skip
def test_a_call_is_read_with_what_belongs_to_it(text, call):
    """Pass: arguments, DISTINCT, FILTER, nulls and order."""
    ((found,)) = read(text)[1]
    assert Call(**{**vars(found), "text": ""}) == call
    assert found.text == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a + 1", "has no aggregate function"),
        ("approx_count_distinct(a)", "approx_count_distinct can't be computed here"),
        ("sum(a, b)", "sum takes 1 arguments, not 2"),
        ("max(DISTINCT a)", "max can't be over DISTINCT values here"),
        ("count(DISTINCT *)", "count(DISTINCT *) is over no column"),
        ("percentile_cont(0.5)", "percentile_cont needs WITHIN GROUP"),
        ("sum(a) WITHIN GROUP (ORDER BY b)", "sum takes no WITHIN GROUP"),
        ("sum(a) IGNORE NULLS", "sum takes no IGNORE NULLS"),
        ("first(a, b)", "whether first ignores nulls is `true` or `false`"),
        ("sum(max(a))", "sum is over another aggregate function, max"),
        ("sum(a) OVER (PARTITION BY b)", "has a window function"),
        ("sum(a", "a bracket is not closed"),
        ("sum(a) FILTER (b)", "FILTER has a condition"),
        ("percentile_disc(0.5) WITHIN GROUP (a)", "WITHIN GROUP has an order"),
        ("hll_sketch_agg(a, b)", "how large a sketch is, is a whole number"),
        ("percentile(a, 2)", "which percentile is a number from 0 to 1"),
        ("percentile(a, b)", "which percentile is a number from 0 to 1"),
        ("percentile(a, array())", "which percentile is a number from 0 to 1"),
    ],
)
def test_what_can_not_be_read_is_refused(text, words):
    """Pass: an error of the option that says what is wrong."""
    with pytest.raises(OptionError) as caught:
        read_total("t", text)
    assert words in str(caught.value)
    assert caught.value.option == "columns"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sum(a)", "interval day to second"),
        ("avg(a)", "array<int>"),
        ("max(a)", "struct<a:int>"),
        ("max_by(b, a)", "map<int,int>"),
        ("min(a)", "string collate UNICODE_CI"),
        ("count(DISTINCT a)", "map<int,int>"),
        ("median(a)", "date"),
        ("stddev(a)", "boolean"),
    ],
)
def test_types_that_a_function_can_not_take_are_refused(text, kind):
    """Pass: an error with the function and the type, when the types are known."""
    (call,) = read(text)[1]
    with pytest.raises(OptionError, match=r"can't be computed here"):
        inputs_of(call, ["int", kind] if call.function == "max_by" else [kind])
