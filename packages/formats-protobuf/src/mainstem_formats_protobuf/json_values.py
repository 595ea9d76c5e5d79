"""Struct, Value and ListValue of Google's, which are JSON, as its text."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

from mainstem_formats_protobuf.wire import EIGHT, SIZED, VARINT, Misfit, fields

#: How deep values may be in each other.
_DEEPEST = 100
_OTHER = "a Value was written as another type"
#: The fields of a Value: null, number, text, boolean, object, list, with the wire type of each.
_WIRES = {1: VARINT, 2: EIGHT, 3: SIZED, 4: VARINT, 5: SIZED, 6: SIZED}


def json_text(kind: str) -> Callable[[bytes], str]:
    """Return what reads a Struct, Value or ListValue as the text of its JSON."""
    read = {"Struct": _object, "Value": _value, "ListValue": _list}[kind]

    def text(held: bytes) -> str:
        return json.dumps(read(memoryview(held), 0), ensure_ascii=False, separators=(",", ":"))

    return text


def _parts(held: memoryview) -> Iterator[memoryview]:
    """Yield the messages that are a message's field 1."""
    for number, wire, value in fields(held):
        if number == 1:
            if wire != SIZED:
                raise Misfit(_OTHER)
            yield value


def _object(held: memoryview, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for entry in _parts(held):
        key, value = "", memoryview(b"")
        for number, wire, each in fields(entry):
            if number in (1, 2) and wire != SIZED:
                raise Misfit(_OTHER)
            if number == 1:
                key = str(each, "utf-8")
            elif number == 2:
                value = each
        made[key] = _value(value, depth + 1)
    return made


def _list(held: memoryview, depth: int) -> list[Any]:
    return [_value(each, depth + 1) for each in _parts(held)]


def _value(held: memoryview, depth: int) -> Any:
    if depth > _DEEPEST:
        raise Misfit("a Struct is nested too deep")
    kind, found = 0, None
    for number, wire, each in fields(held):
        if number in _WIRES:
            if wire != _WIRES[number]:
                raise Misfit(_OTHER)
            if kind:
                raise Misfit("a Value has several kinds, or comes in parts")
            kind, found = number, each
    if kind == 0:
        raise Misfit("a Value has no kind")
    if kind in (1, 4):
        if found not in ((0,) if kind == 1 else (0, 1)):
            raise Misfit("a null or boolean is none")
        return None if kind == 1 else found == 1
    if kind == 2:
        (double,) = struct.unpack("<d", found)  # type: ignore[arg-type]
        if not math.isfinite(double):
            raise Misfit("a Value is a number that JSON does not have")
        minus_zero = double == 0 and math.copysign(1, double) < 0
        whole = double.is_integer() and abs(double) < 2**53 and not minus_zero
        return int(double) if whole else double
    assert isinstance(found, memoryview)  # noqa: S101
    if kind == 3:
        return str(found, "utf-8")
    return _object(found, depth) if kind == 5 else _list(found, depth)
