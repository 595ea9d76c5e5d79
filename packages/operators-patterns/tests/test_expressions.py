"""SQL of definitions and measures."""

from __future__ import annotations

import math
import pickle
import re
from decimal import Decimal

import pytest
from mainstem_operators_patterns.expressions import (
    Definition,
    ExpressionError,
    Reference,
    read_expression,
)
from mainstem_operators_patterns.kinds import check_types
from mainstem_operators_patterns.matching import _added, answer

NAMES, NAN = ("a", "b"), math.nan


@pytest.mark.parametrize(
    ("sql", "written", "references"),
    [
        ("x > 1", "x > 1", []),
        ("a.x > 1 AND b.x < 2", "x > 1 AND <last b x> < 2", [Reference("last", "b", "x")]),
        ("count(b) > 1", "<count b > > 1", [Reference("count", "b", "")]),
        ("count(b.*)", "<count b >", [Reference("count", "b", "")]),
        ("COUNT(*)", "<count None >", [Reference("count", None, "")]),
        ("sum(b.x * 2 + y)", "<sum b x * 2 + y>", [Reference("sum", "b", "x * 2 + y")]),
        ("avg(x)", "<avg None x>", [Reference("avg", None, "x")]),
        ("first(b.`odd name`)", "<first b `odd name`>", [Reference("first", "b", "`odd name`")]),
        ("s.a.x", "s.a.x", []),
        ("concat('a.x', b.x)", "concat('a.x', <last b x>)", [Reference("last", "b", "x")]),
        ("greatest(x, 'count(')", "greatest(x, 'count(')", []),
        ("max(abs(b.x))", "<max b abs(x)>", [Reference("max", "b", "abs(x)")]),
    ],
)
def test_what_is_asked_of_rows(sql, written, references):
    """Pass: variables and functions of rows are found, in texts and paths they are not; what is left is SQL."""
    found = read_expression(sql, NAMES, own="a")
    assert list(found.references) == references
    assert found.written(lambda r: f"<{r.function} {r.variable} {r.value}>") == written


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("sum(a.x + b.x)", "rows of a and b at once"),
        ("sum(max(x))", "max within sum"),
        ("sum()", "sum() of nothing"),
        ("sum(b)", "sum of rows, not of a value"),
        ("next(x) > 1", "next() is not known"),
        ("count(DISTINCT x)", "DISTINCT"),
        ("sum(x", "never closed"),
        ("x = 'y", "never closed"),
        ("b.", "expected a column after b."),
    ],
)
def test_what_can_not_be_asked_is_told(sql, told):
    """Pass: by what is wrong."""
    with pytest.raises(ExpressionError) as error:
        read_expression(sql, NAMES, own="a")
    assert told in str(error.value)


def holds(sql, totals, **row):
    """Return whether a definition holds; totals in the order of its references."""
    definition = Definition(read_expression(sql, NAMES, own="a"))
    definition = pickle.loads(pickle.dumps(definition))
    return definition.holds(totals, [eval(each, {}, row) for each in definition.values])


@pytest.mark.parametrize(
    ("sql", "totals", "found"),
    [
        ("x > b.x", [4], True),
        ("x > b.x", [5], False),
        ("x > b.x", [None], False),
        ("NOT x > b.x", [None], False),
        ("b.x IS NULL", [None], True),
        ("b.x IS NOT NULL", [None], False),
        ("x > b.x OR x == 5", [None], True),
        ("x > b.x AND x == 5", [None], False),
        ("x BETWEEN b.x AND b.x + 2", [4, 4], True),
        ("x NOT BETWEEN b.x AND b.x + 2", [4, 4], False),
        ("x * 2 - 1 = b.x + (x + 1) * 1", [3], True),
        ("-b.x = x", [-5], True),
        ("b.x / 2 = 2.5", [5], True),
        ("b.x / (x - 5) IS NULL", [5], True),
        ("b.x % 3 = -1", [-4], True),
        ("b.x <> x", [Decimal(5)], False),
        ("b.x * 0.5 < x", [Decimal(5)], True),
        ("(b.x = 1 OR b.x = 4) AND x == 5", [4, 4], True),
        ("b.x > x", [NAN], True),
        ("x < b.x AND x <= b.x AND x <> b.x", [NAN, NAN, NAN], True),
        ("b.x < x OR b.x = x", [NAN, NAN], False),
        ("b.x = b.x + 1 AND b.x >= b.x AND NOT b.x < b.x", [NAN] * 6, True),
    ],
)
def test_definitions_that_look_back(sql, totals, found):
    """Pass: as SQL computes them, with its nulls and NaN, the greatest number; what is of the row alone is
    left to Spark."""
    assert holds(sql, totals, x=5) is found


@pytest.mark.parametrize(
    ("function", "values", "found"),
    [
        ("max", [5.0, NAN], NAN), ("max", [NAN, 5.0], NAN), ("min", [5.0, NAN], 5.0), ("min", [NAN, 5.0], 5.0),
        ("min", [NAN, NAN], NAN), ("max", [None, 5.0, None], 5.0),
    ],
)  # fmt: skip
def test_the_least_and_the_greatest_with_nan(function, values, found):
    """Pass: as SQL has it, whichever comes first."""
    total = None
    for value in values:
        total = _added(function, total, value)
    assert repr(answer(function, total)) == repr(found)


TYPES = {
    "amount": "decimal(30,18)", "v": "double", "day": "date", "at": "timestamp", "name": "string", "flag": "boolean",
    "tags": "map<string,string>", "'2026-01-01'": "string", "INTERVAL 10 MINUTES": "interval day to second",
    "INTERVAL 1 MONTH": "interval month",
    "INTERVAL 3 DAYS": "interval day", "list": "array<int>", "true": "boolean", "0.1": "decimal(1,1)",
}  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("v > b.v AND amount < 2 * avg(b.amount)", None),
        ("at < prev(at) + INTERVAL 10 MINUTES", None),
        ("at - b.at < INTERVAL 10 MINUTES", None),
        ("name = b.name AND b.flag", None),
        ("b.tags IS NOT NULL", None),
        ("day <= b.day + INTERVAL 3 DAYS", None),
        ("at - b.at > (at - first(at)) / 2", None),
        ("at - b.at > (at - first(at)) * 0.5", None),
        ("b.list = list", None),
        ("b.list < list", "< of array<int> can't be computed here"),
        ("b.day = '2026-01-01'", "date = string: not of one kind"),
        ("b.v > name", "number > string: not of one kind"),
        ("at < prev(at) + INTERVAL 1 MONTH", "timestamp + interval month can't be computed here"),
        ("b.tags = b.tags", "= of map<string,string> can't be computed here"),
        ("b.v AND flag", "AND of number can't be computed here"),
        ("b.v + 1", "it is of kind number, and no condition"),
        ("sum(b.name) > 1", "sum of string can't be computed here"),
    ],
)
def test_kinds_that_definitions_put_together(sql, told):
    """Pass: those of one kind; others are told before anything is compared."""
    definition = Definition(read_expression(sql, NAMES, own="a"))
    if told is None:
        check_types(definition, TYPES)
        return
    with pytest.raises(ExpressionError, match=re.escape(told)):
        check_types(definition, TYPES)


def test_what_is_left_to_spark():
    """Pass: whole parts that ask nothing of rows before, each once."""
    sql = "amount > 1000 AND lower(name) IN ('a', 'b') AND amount > 10 * avg(b.amount) AND amount / 2 > b.amount"
    definition = Definition(read_expression(sql, NAMES, own="a"))
    assert definition.values == [
        "amount > 1000", "lower(name) IN ('a', 'b')", "amount", "amount / 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "sql", ["abs(b.x) > 1", "b.x IN (1, 2)", "CASE WHEN b.x THEN 1 END", "b.x LIKE 'y'"]
)
def test_definitions_that_can_not_be_computed_are_told(sql):
    """Pass: functions over rows before; measures may have them."""
    with pytest.raises(ExpressionError, match="can't be computed"):
        Definition(read_expression(sql, NAMES, own="a"))
