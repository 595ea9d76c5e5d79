"""Predicates of SQL as queries: comparisons of columns with constants, joined by AND, OR and NOT.

A query matches where Spark finds its predicate true, and neither where that is false nor where it is
null: so NOT is brought down to the comparisons, whose opposites a null does not meet either.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import expressions as sql

from mainstem_operators_search.query import (
    DEEPEST,
    LONGEST,
    MOST,
    And,
    Like,
    Not,
    Null,
    Or,
    Query,
    Range,
    value_of,
)

#: What is true of every document, and of none.
_TRUE, _FALSE = And(()), Or(())
_FLOATS = ("float", "double")
#: By comparison: the one that says the opposite, and the one of its sides exchanged.
_OPPOSITES = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_EXCHANGED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_COMPARISONS: Mapping[type[Any], str] = {
    sql.EQ: "=",
    sql.NEQ: "<>",
    sql.LT: "<",
    sql.LTE: "<=",
    sql.GT: ">",
    sql.GTE: ">=",
}
_DAY = r"\d{4}-\d\d-\d\d"
_LOCAL = rf"{_DAY}(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{{1,6}})?)?)?"
#: Dates and times as they are written, by type.
_TIMES = {
    "date": re.compile(_DAY, re.ASCII),
    "timestamp": re.compile(rf"{_LOCAL}(?:Z|[+-]\d\d:\d\d)?", re.ASCII),
    "timestamp_ntz": re.compile(_LOCAL, re.ASCII),
}
#: As many as a DECIMAL has.
_DIGITS = 38
# What it says of texts that it can't read, and of what is in them, is not for a log.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
_DATES = {"DATE": "date", "TIMESTAMPTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz"}


class PredicateReader:
    """Reads predicates.

    Args:
        types: the columns of documents that can be asked for, and their types.
    """

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = {name.lower(): (name, kind) for name, kind in types.items()}

    def read(self, text: str) -> Query:
        """Return what a predicate asks for.

        Raises:
            ValueError: it can't be read; says why.
        """
        if not text.strip():
            raise ValueError("it asks for nothing")
        if text.rstrip().endswith(";"):
            raise ValueError("it is a statement, and no predicate")
        if len(text) > LONGEST:
            raise ValueError(f"it has more than {LONGEST:,} characters")
        try:
            found = sqlglot.parse_one(text, read="spark")
            if sum(1 for _ in found.find_all(sql.Column, sql.Literal)) > 2 * MOST:
                raise ValueError(f"it has more than {MOST:,} parts")
            return self._query(found, wanted=True, depth=0)
        except sqlglot.errors.SqlglotError:
            raise ValueError("it is no predicate of SQL") from None
        except RecursionError:
            raise ValueError("it has too many parts within each other") from None

    def _query(self, found: Any, *, wanted: bool, depth: int) -> Query:
        """Return what is true of documents for which an expression is `wanted`."""
        if depth > DEEPEST:
            raise ValueError(f"it has more than {DEEPEST} parts within each other")
        if isinstance(found, sql.Paren):
            return self._query(found.this, wanted=wanted, depth=depth + 1)
        if isinstance(found, sql.Not):
            return self._query(found.this, wanted=not wanted, depth=depth + 1)
        if isinstance(found, sql.And | sql.Or):
            sides = found.flatten(unnest=False)
            parts = tuple(self._query(side, wanted=wanted, depth=depth + 1) for side in sides)
            return And(parts) if isinstance(found, sql.And) is wanted else Or(parts)
        if isinstance(found, sql.Boolean):
            return _TRUE if bool(found.this) is wanted else _FALSE
        if found.args.get("negate"):  # of LIKE, IN and BETWEEN
            wanted = not wanted
        for kinds, read in self._READERS.items():
            if isinstance(found, kinds):
                return read(self, found, wanted)
        raise ValueError(
            f"{found.sql('spark')[:50]} is not read here: compare a column with a constant"
        )

    # -- each kind of comparison ------------------------------------------------------------------

    def _compared(self, found: Any, wanted: bool) -> Query:
        sides, operator = (found.this, found.expression), _COMPARISONS[type(found)]
        if not isinstance(_bare(sides[0]), sql.Column):
            sides, operator = (sides[1], sides[0]), _EXCHANGED[operator]
        name, kind = self._column(sides[0])
        if not wanted:
            operator = _OPPOSITES[operator]
        return _comparison(name, kind, operator, self._constant(sides[1], name, kind))

    def _null_safe(self, found: Any, wanted: bool) -> Query:
        name, kind = self._column(found.this)
        if isinstance(_bare(found.expression), sql.Null):
            return Null(name) if wanted else Not(Null(name))
        value = self._constant(found.expression, name, kind)
        same = _comparison(name, kind, "=", value)
        return same if wanted else Not(same)

    def _in(self, found: Any, wanted: bool) -> Query:
        name, kind = self._column(found.this)
        if not found.expressions:
            raise ValueError("IN takes a list of constants here")
        values = [self._constant(each, name, kind) for each in found.expressions]
        parts = tuple(_comparison(name, kind, "=" if wanted else "<>", each) for each in values)
        return Or(parts) if wanted else And(parts)

    def _between(self, found: Any, wanted: bool) -> Query:
        name, kind = self._column(found.this)
        if found.args.get("symmetric"):
            raise ValueError("SYMMETRIC is not read here")
        low, high = (self._constant(found.args[each], name, kind) for each in ("low", "high"))
        if wanted:
            return Range(name, low, high)
        return Or((_comparison(name, kind, "<", low), _comparison(name, kind, ">", high)))

    def _is(self, found: Any, wanted: bool) -> Query:
        what = _bare(found.expression)
        if isinstance(what, sql.Null):
            name, _ = self._column(found.this)
            return Null(name) if wanted else Not(Null(name))
        if isinstance(what, sql.Boolean):
            true = self._query(found.this, wanted=bool(what.this), depth=0)
            return true if wanted else Not(true)
        raise ValueError(f"{found.sql('spark')[:50]} is not read here")

    def _like(self, found: Any, wanted: bool) -> Query:
        escape = "\\"
        if isinstance(found, sql.Escape):
            mark = found.expression
            if not isinstance(mark, sql.Literal) or not mark.is_string or len(mark.this) != 1:
                raise ValueError("ESCAPE takes one character")
            escape, found = str(mark.this), found.this
            if found.args.get("negate"):
                wanted = not wanted
        if not isinstance(found, sql.Like | sql.ILike):
            raise ValueError(f"{found.sql('spark')[:50]} is not read here")
        name, kind = self._column(found.this)
        if kind != "string":
            raise ValueError(f"{name} is {kind.upper()}, and no text")
        pattern = found.expression
        if not isinstance(pattern, sql.Literal) or not pattern.is_string:
            raise ValueError("LIKE takes a text here")
        any_case, told = isinstance(found, sql.ILike), str(pattern.this)
        like = Like(name, _regex(told.lower() if any_case else told, escape), any_case)
        return like if wanted else And((Not(Null(name)), Not(like)))

    def _open(self, found: Any, wanted: bool) -> Query:
        name, kind = self._column(found)
        if kind != "boolean":
            raise ValueError(f"{name} is {kind.upper()}, and no condition")
        return Range(name, wanted, wanted)

    _READERS: Mapping[Any, Callable[[Any, Any, bool], Query]] = {
        tuple(_COMPARISONS): _compared,
        (sql.NullSafeEQ,): _null_safe,
        sql.In: _in,
        sql.Between: _between,
        sql.Is: _is,
        (sql.Like, sql.ILike, sql.Escape): _like,
        sql.Column: _open,
    }

    # -- columns and constants --------------------------------------------------------------------

    def _column(self, found: Any) -> tuple[str, str]:
        found = _bare(found)
        if not isinstance(found, sql.Column) or found.table:
            raise ValueError(f"{found.sql('spark')[:50]} is no column of documents")
        there = self._types.get(found.name.lower())
        if there is None:
            have = ", ".join(sorted(name for name, _ in self._types.values()))
            raise ValueError(f"there is no column {found.name[:50]} to search; there are: {have}")
        return there

    def _constant(self, found: Any, name: str, kind: str) -> Any:
        """Return a constant as values of a column are."""
        found, sign = _bare(found), ""
        told = f"{name} is {kind.upper()}, which {found.sql('spark')[:50]} is not"
        if isinstance(found, sql.Neg):
            found, sign = _bare(found.this), "-"
            if not isinstance(found, sql.Literal) or found.is_string:
                raise ValueError(told)
        if isinstance(found, sql.Cast) and isinstance(found.this, sql.Literal):
            typed = _DATES.get(found.to.sql().upper().replace("_", ""))
            if typed != kind or not found.this.is_string:
                raise ValueError(told)
            return _time(str(found.this.this), name, kind)
        if isinstance(found, sql.Boolean) and kind == "boolean":
            return bool(found.this)
        if not isinstance(found, sql.Literal):
            raise ValueError(f"{found.sql('spark')[:50]} is no constant that is read here")
        texts = kind == "string" or kind.startswith(("date", "timestamp"))
        if found.is_string is not texts or kind == "boolean":
            raise ValueError(told)
        text = str(found.this)
        if texts:
            return text if kind == "string" else _time(text, name, kind)
        return _number(sign + text, name, kind)


def _time(text: str, name: str, kind: str) -> Any:
    """Return a date or a time, of those texts alone that mean the same to all."""
    if _TIMES[kind].fullmatch(text) is None:
        raise ValueError(
            f"{name} is {kind.upper()}, which {text[:50]!r} is not, as it is read here"
        )
    return value_of(text, name, kind)


def _number(text: str, name: str, kind: str) -> float | Decimal:
    """Return a number as values of a column are compared with it."""
    if kind in _FLOATS:  # as doubles
        found = float(text)
        if math.isinf(found):
            raise ValueError(f"{text[:50]} is larger than any DOUBLE")
        return found
    if "e" in text.lower():
        raise ValueError(f"{text[:50]} is a DOUBLE, and {name} is {kind.upper()}: write its digits")
    try:
        exact = Decimal(text)
    except ArithmeticError:
        raise ValueError(f"{text[:50]} is no number") from None
    if len(exact.as_tuple().digits) > _DIGITS:
        raise ValueError(f"{text[:50]} has more than {_DIGITS} digits")
    return exact


def _bare(found: Any) -> Any:
    """Return what stands in parentheses."""
    while isinstance(found, sql.Paren):
        found = found.this
    return found


def _comparison(name: str, kind: str, operator: str, value: Any) -> Query:
    """Return a comparison; a NaN is above all other numbers, as Spark has it."""
    if operator == "=":
        return Range(name, value, value)
    if operator == "<>":
        below = _comparison(name, kind, "<", value)
        return Or((below, _comparison(name, kind, ">", value)))
    if operator in ("<", "<="):
        return Range(name, None, value, below=operator == "<")
    return Range(name, value, above=operator == ">", nan=kind in _FLOATS)


def _regex(pattern: str, escape: str) -> str:
    """Return a pattern of LIKE as a regular expression for whole texts.

    What stands between two % is looked for once, where it is first, so that no text takes long.

    Raises:
        ValueError: the escape stands before what needs none.
    """
    made, at = [""], 0
    while at < len(pattern):
        mark = pattern[at]
        if mark == escape:
            at += 1
            if pattern[at : at + 1] not in ("%", "_", escape):
                raise ValueError(f"in LIKE {escape!r} stands before %, _ or itself")
            made[-1] += re.escape(pattern[at])
        elif mark == "%":
            made.append("")
        else:
            made[-1] += "." if mark == "_" else re.escape(mark)
        at += 1
    first, *rest = made
    if not rest:
        return first
    *between, last = rest
    return first + "".join(f"(?>.*?{part})" for part in between if part) + f".*{last}"
