"""What a definition that looks at rows before may put together, by Spark's types.

Spark brings the sides of a comparison to one type; here they have to be of one kind already.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainstem_operators_patterns.expressions import (
    COMPARED,
    LITERAL,
    Definition,
    ExpressionError,
    Part,
    Reference,
)

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_SPANS = ("interval day", "interval hour", "interval minute", "interval second")
_TIMES = ("timestamp", "timestamp_ntz")
#: Whole days, which a date can be moved by.
_DAYS = "interval day"
#: Kinds that are ordered; of others only what is null is known.
_ORDERED = ("number", "string", "binary", "boolean", "date", "time", "span", _DAYS, *_TIMES)


def check_types(definition: Definition, types: Mapping[str, str]) -> None:
    """See that the parts of a definition fit each other.

    Args:
        types: Spark's types of the SQL of one row.

    Raises:
        ExpressionError: they do not; says which.
    """
    found = _kind(definition.part, definition.references, types)
    if found != "boolean":
        raise ExpressionError(f"it is of kind {found}, and no condition")


def _kind(part: Part, references: tuple[Reference, ...], types: Mapping[str, str]) -> str:
    if part.reference is not None:
        asked = references[part.reference]
        if asked.function in ("count", "avg"):
            if asked.function == "avg":
                _expect("avg", _of_type(types[asked.value]), "number")
            return "number"
        found = _of_type(types[asked.value])
        if asked.function == "sum":
            _expect("sum", found, "number")
        if asked.function in ("min", "max"):
            _expect(asked.function, found, *_ORDERED)
        return found
    if LITERAL.fullmatch(part.sql):
        return "number"
    if part.sql:
        return _of_type(types[part.sql])
    kinds = [_kind(each, references, types) for each in part.parts]
    if part.operation in ("and", "or", "not"):
        for each in kinds:
            _expect(part.operation.upper(), each, "boolean")
        return "boolean"
    if part.operation == "null":
        return "boolean"
    if part.operation in COMPARED:
        alike = kinds[0] == kinds[1] and part.operation in _EQUAL and kinds[0].startswith(_PLAIN)
        for each in () if alike else kinds:
            _expect(part.operation, each, *_ORDERED)
        if _span(kinds[0]) != _span(kinds[1]):
            raise ExpressionError(
                f"{kinds[0]} {part.operation} {kinds[1]}: not of one kind; use CAST, or a literal "
                "such as DATE '2026-01-01'"
            )
        return "boolean"
    return _computed(part.operation, kinds)


def _computed(operation: str, kinds: list[str]) -> str:
    if operation == "neg":
        _expect("-", kinds[0], "number", "span", _DAYS)
        return kinds[0]
    if operation in ("+", "-") and kinds[0] == "date" and kinds[1] == _DAYS:
        return "date"
    if operation == "+" and kinds == [_DAYS, "date"]:
        return "date"
    first, second = map(_span, kinds)
    if first == second == "number":
        return "number"
    if {first, second} == {"span", "number"} and (
        operation == "*" or (operation, first) == ("/", "span")
    ):
        return "span"
    if operation in ("+", "-"):
        if second == "span" and first in (*_TIMES, "span"):
            return first
        if operation == "+" and first == "span" and second in _TIMES:
            return second
        if operation == "-" and first == second and first in (*_TIMES, "date"):
            return "span"
    raise ExpressionError(f"{first} {operation} {second} can't be computed here")


def _of_type(text: str) -> str:
    """Return what kind of value a type of Spark's has; the type itself where it is none of those."""
    name = text.partition("(")[0]
    if name in _NUMBERS:
        return "number"
    if text.startswith(_SPANS):
        return _DAYS if text == _DAYS else "span"
    if name == "time":
        return name
    return "string" if name in ("varchar", "char") else text


def _span(kind: str) -> str:
    return "span" if kind == _DAYS else kind


#: Kinds that are equal or not, part by part, and have no order here.
_PLAIN, _EQUAL = ("array", "struct"), ("=", "==", "<>", "!=")


def _expect(what: str, kind: str, *expected: str) -> None:
    if kind not in expected:
        raise ExpressionError(f"{what} of {kind} can't be computed here")
