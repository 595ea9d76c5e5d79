"""Values as MySQL prints them: times in UTC, numbers for booleans and bits, bytes as they are."""

from __future__ import annotations

from collections.abc import Mapping

from mainstem_cdc import READERS, Misfit, Reader


def has_reader(kind: str) -> bool:
    """Whether values can have a type, in Spark's short form."""
    return kind == "binary" or kind.partition("(")[0] in _READERS


def reader(kind: str) -> Reader:
    """Return what makes values of a type.

    Raises:
        KeyError: there is none; see `has_reader`.
    """
    return _READERS[kind.partition("(")[0]]


def _boolean(text: str) -> bool:
    if text not in ("0", "1"):
        raise Misfit("no boolean: neither 0 nor 1")
    return text == "1"


_READERS: Mapping[str, Reader] = {**READERS, "boolean": _boolean}


def print_double(number: float) -> bytes:
    """Return a number as MySQL prints a DOUBLE: the shortest digits, an exponent from 15 places on."""
    text = repr(number)
    sign, text = ("-", text[1:]) if text[0] == "-" else ("", text)
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return b"0"
    # The place of the point, counted from the first digit that is not zero.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if (point > _FIXED and point >= len(digits)) or point < 1 - _FIXED:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{point - 1}".encode()
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}".encode()
    if point >= len(digits):
        return f"{sign}{digits}{'0' * (point - len(digits))}".encode()
    return f"{sign}{digits[:point]}.{digits[point:]}".encode()


#: Beyond so many places before the point, or zeros behind it, MySQL writes an exponent.
_FIXED = 15
