"""Values as PostgreSQL prints them: ISO dates, UTC, bytes in hex, arrays in braces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem.columns import parts_of
from mainstem_cdc import READERS, Misfit, Reader


def has_reader(kind: str) -> bool:
    """Whether values can have a type, in Spark's short form."""
    if kind.startswith("array<"):
        return has_reader(parts_of(kind)[0].type or "")
    return kind.partition("(")[0] in _READERS


def reader(kind: str) -> Reader:
    """Return what makes values of a type.

    Raises:
        KeyError: there is none; see `has_reader`.
    """
    if kind.startswith("array<"):
        kind = parts_of(kind)[0].type or ""
        inner, nested = reader(kind), kind.startswith("array<")
        return lambda text: _array(text, inner, nested=nested)
    return _READERS[kind.partition("(")[0]]


def _boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise Misfit("no boolean")
    return text == "t"


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise Misfit("no bytes in hex")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise Misfit("no bytes in hex") from None


_READERS: Mapping[str, Reader] = {**READERS, "boolean": _boolean, "binary": _bytes}


# -- arrays: {1,NULL,"a \"b\""}, nested, perhaps with bounds before ([0:1]={1,2}) -----------------


def _array(text: str, inner: Reader, *, nested: bool) -> list[Any]:
    start = text.find("{")
    if start < 0 or (start and not (text.startswith("[") and text[:start].endswith("]="))):
        raise Misfit("no array")
    found, end = _elements(text, start, inner, nested=nested)
    if end != len(text):
        raise Misfit("no array")
    return found


def _elements(text: str, at: int, inner: Reader, *, nested: bool) -> tuple[list[Any], int]:
    """Return the elements of the array that begins at a place, and where it ends.

    Elements of elements have `inner` bound to the array's text: see `reader`.
    """
    found: list[Any] = []
    at += 1
    while text[at] != "}":
        if text[at] == ",":
            at += 1
        elif text[at] == "{":
            if not nested:  # PostgreSQL binds no column to a number of dimensions
                raise Misfit("an array of arrays")
            end = _closing(text, at)
            found.append(inner(text[at:end]))
            at = end
        elif text[at] == '"':
            word, at = _quoted(text, at)
            found.append(inner(word))
        else:
            end = min(e for e in (text.find(",", at), text.find("}", at)) if e >= 0)
            word = text[at:end]
            found.append(None if word == "NULL" else inner(word))
            at = end
    return found, at + 1


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return the quoted text that begins at a place, and where it ends."""
    parts: list[str] = []
    at += 1
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        parts.append(text[at])
        at += 1
    return "".join(parts), at + 1


def _closing(text: str, at: int) -> int:
    """Return where the array that begins at a place ends."""
    depth = 0
    while True:
        if text[at] == '"':
            at = _quoted(text, at)[1]
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if not depth:
            return at
