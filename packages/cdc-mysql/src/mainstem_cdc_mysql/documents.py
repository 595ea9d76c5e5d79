"""MySQL's binary JSON, printed as MySQL prints it."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

from mainstem_cdc_mysql.protocol import length_at
from mainstem_cdc_mysql.values import print_double

_LITERALS = {0: None, 1: True, 2: False}
_NUMBERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
#: Types of what is in a document though JSON has none of them.
_DECIMAL, _DATE, _TIMES, _TIME = 246, 10, (7, 12), 11
_STEP = re.compile(r'\.(?:"((?:[^"\\]|\\.)*)"|([^.\["\s]+))|\[(\d+)\]')
_REPLACE, _INSERT, _REMOVE = 0, 1, 2


class Number(str):
    """A number as it is printed."""

    __slots__ = ()


def printed(data: bytes) -> bytes:
    """Return a document as text."""
    return _text(_value(data[0], data, 1) if data else None).encode()


def changed(text: bytes, differences: bytes) -> bytes:
    """Return a document as text after changes, given as text before them."""
    found = json.loads(text, parse_int=Number, parse_float=Number)
    at = 0
    while at < len(differences):
        operation = differences[at]
        length, at = length_at(differences, at + 1)
        path = differences[at : at + length].decode()
        at += length
        made = None
        if operation != _REMOVE:
            length, at = length_at(differences, at)
            data = differences[at : at + length]
            made = _value(data[0], data, 1)
            at += length
        found = _applied(found, list(_steps(path)), operation, made)
    return _text(found).encode()


def _steps(path: str) -> Iterator[str | int]:
    for each in _STEP.finditer(path):
        quoted, plain, index = each.groups()
        if index is not None:
            yield int(index)
        else:
            yield json.loads(f'"{quoted}"') if quoted is not None else plain


def _applied(found: Any, steps: list[str | int], operation: int, made: Any) -> Any:
    if not steps:
        return made
    inside: Any = found
    for step in steps[:-1]:
        inside = _inside(inside, step)
    last: Any = steps[-1]
    if isinstance(inside, list):
        if operation == _REMOVE:
            del inside[last]
        elif operation == _INSERT:
            inside.insert(last, made)
        else:
            inside[last] = made
    elif isinstance(inside, dict):
        if operation == _REMOVE:
            inside.pop(last, None)
        else:
            inside[last] = made
    else:
        return made  # a value that is an array of itself: its place 0
    return found


def _inside(found: Any, step: Any) -> Any:
    return found if step == 0 and not isinstance(found, list | dict) else found[step]


# -- reading --------------------------------------------------------------------------------------


def _value(kind: int, data: bytes, at: int) -> Any:
    """Return the value of a type that begins at a place."""
    if kind < 4:
        return _collection(data, at, large=kind % 2 == 1, named=kind < 2)
    if kind == 4:
        return _LITERALS[data[at]]
    if kind in _NUMBERS:
        return Number(struct.unpack_from(_NUMBERS[kind], data, at)[0])
    if kind == _DOUBLE:
        return Number(_double(struct.unpack_from("<d", data, at)[0]))
    if kind == _STRING:
        length, at = _length(data, at)
        return data[at : at + length].decode()
    if kind == _OPAQUE:
        inner = data[at]
        length, at = _length(data, at + 1)
        return _opaque(inner, data[at : at + length])
    raise ValueError(f"a document has a value of type {kind}")


def _double(number: float) -> str:
    text = print_double(number).decode()
    if not number:
        return str(number)
    return text if "." in text or "e" in text else f"{text}.0"


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where what follows begins."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return number, at


def _collection(data: bytes, begin: int, *, large: bool, named: bool) -> Any:
    form, size = ("<I", 4) if large else ("<H", 2)

    def number(at: int) -> int:
        return int(struct.unpack_from(form, data, at)[0])

    count, at = number(begin), begin + 2 * size
    names = []
    for _ in range(count if named else 0):
        place = begin + number(at)
        length = int.from_bytes(data[at + size : at + size + 2], "little")
        names.append(data[place : place + length].decode())
        at += size + 2
    values = []
    for _ in range(count):
        kind = data[at]
        inlined = kind in (4, 5, 6) or (large and kind in (7, 8))
        place = at + 1 if inlined else begin + number(at + 1)
        values.append(_value(kind, data, place))
        at += 1 + size
    return dict(zip(names, values, strict=True)) if named else values


def _opaque(kind: int, data: bytes) -> Any:
    if kind == _DECIMAL:
        from mainstem_cdc_mysql.rows import decimal

        return Number(decimal(data[0], data[1])(data, 2)[0].decode())
    number = int.from_bytes(data[:8], "little", signed=True)
    if kind == _DATE or kind in _TIMES:
        days, second = number >> 41, number >> 24 & 0x1FFFF
        months, day = days >> 5, days & 31
        date = f"{months // 13:04}-{months % 13:02}-{day:02}"
        if kind == _DATE:
            return date
        micro = number & 0xFFFFFF
        return f"{date} {second >> 12:02}:{second >> 6 & 63:02}:{second & 63:02}.{micro:06}"
    if kind == _TIME:
        sign, number = ("-", -number) if number < 0 else ("", number)
        second, micro = number >> 24, number & 0xFFFFFF
        return f"{sign}{second >> 12 & 0x3FF:02}:{second >> 6 & 63:02}:{second & 63:02}.{micro:06}"
    return f"base64:type{kind}:{base64.b64encode(data).decode()}"


# -- printing -------------------------------------------------------------------------------------

_ESCAPES = {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}
_ESCAPED = {
    **{at: f"\\u{at:04x}" for at in range(32)},
    **{ord(name): text for name, text in _ESCAPES.items()},
}


def _text(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPED)}"'
    if isinstance(value, dict):
        # The server keeps names by their length, then by their bytes.
        items = sorted(value.items(), key=lambda each: (len(each[0].encode()), each[0].encode()))
        return "{" + ", ".join(f"{_text(name)}: {_text(v)}" for name, v in items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return {None: "null", True: "true", False: "false"}[value]
