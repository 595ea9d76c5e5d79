"""Takes JSON apart without changing a byte of its parts."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NoReturn

_SPACE = re.compile(r"[ \t\n\r]*")


class NotJSON(ValueError):  # noqa: N818
    """A text is no JSON, or not of the kind that is asked for."""


def _no_constant(name: str) -> NoReturn:
    raise NotJSON(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=str)


def elements(body: bytes, most: int) -> list[str]:
    """Return the texts of an array's elements, as they were sent; `most + 1` of them at most.

    Raises:
        NotJSON: it is no array.
    """
    text = _text(body)
    at = _opened(text, "[")
    found: list[str] = []
    if text[at : at + 1] == "]":
        at += 1
    else:
        while len(found) <= most:
            _, end = _value(text, at)
            found.append(text[at:end])
            at, more = _next(text, end, "]")
            if not more:
                break
        else:
            return found
    _ended(text, at)
    return found


def lines(body: bytes, most: int) -> list[str]:
    """Return the texts of lines that hold a value each, as they were sent; `most + 1` at most.

    Empty lines are left out.

    Raises:
        NotJSON: a line holds no value.
    """
    found: list[str] = []
    for line in _text(body).split("\n"):
        line = line.strip(" \t\r")
        if line:
            if len(found) > most:
                break
            value(line)
            found.append(line)
    return found


def members(text: str) -> dict[str, tuple[Any, str]]:
    """Return an object's members by name: what each is, as in `value`, and its text.

    Raises:
        NotJSON: it is no object, or has a name twice.
    """
    at = _opened(text, "{")
    found: dict[str, tuple[Any, str]] = {}
    if text[at : at + 1] == "}":
        _ended(text, at + 1)
        return found
    more = True
    while more:
        if text[at : at + 1] != '"':
            raise NotJSON("a member has no name")
        try:
            name, at = scanstring(text, at + 1, True)
        except ValueError:
            raise NotJSON("a name does not end") from None
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise NotJSON("a name has no value")
        at = _skip(text, at + 1)
        made, end = _value(text, at)
        if name in found:
            raise NotJSON("a name is there twice")
        found[name] = (made, text[at:end])
        at, more = _next(text, end, "}")
    _ended(text, at)
    return found


def value(text: str) -> Any:
    """Return what a text holds, with whole numbers as their texts.

    Raises:
        NotJSON: it is no JSON.
    """
    at = _skip(text, 0)
    found, end = _value(text, at)
    _ended(text, end)
    return found


def text_of(body: bytes) -> str:
    """Return a body as text.

    Raises:
        NotJSON: it is not UTF-8.
    """
    return _text(body)


def field(held: Any, path: str) -> str | None:
    """Return the text, or the whole number, that stands at a path with dots; None if there is none.

    Args:
        held: of `value`.
    """
    for name in path.split("."):
        held = held.get(name) if isinstance(held, dict) else None
    return held if isinstance(held, str) and held else None


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise NotJSON("it is not UTF-8") from None


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError:
        raise NotJSON("it is nested too deeply") from None
    except NotJSON:
        raise
    except ValueError:
        raise NotJSON("it is no JSON") from None


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _opened(text: str, bracket: str) -> int:
    at = _skip(text, 0)
    if text[at : at + 1] != bracket:
        raise NotJSON(f"it does not begin with {bracket}")
    return _skip(text, at + 1)


def _next(text: str, at: int, bracket: str) -> tuple[int, bool]:
    """Return where the next part begins, and True; or what is behind the bracket, and False."""
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1), True
    if text[at : at + 1] == bracket:
        return at + 1, False
    raise NotJSON(f"neither a comma nor {bracket} comes after a part")


def _ended(text: str, at: int) -> None:
    if _skip(text, at) != len(text):
        raise NotJSON("something comes after its end")
