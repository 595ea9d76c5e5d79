"""JSON schemas and what they are as columns, without a library: for plans."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from mainstem.columns import Column, quoted, read_columns

_VARIANT = "VARIANT"
_SIMPLE: Mapping[str, str] = {"boolean": "BOOLEAN", "integer": "BIGINT", "number": "DOUBLE"}
_TEXTS: Mapping[str, str] = {"date-time": "TIMESTAMP", "date": "DATE"}
_TYPES = frozenset((*_SIMPLE, "string", "array", "object", "null"))
#: What may stand beside a reference and says nothing of values.
_BESIDE = frozenset(
    ("$ref", "$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default",
     "examples", "deprecated")
)  # fmt: skip
#: Words of the drafts that are known, as their addresses have them.
_DRAFTS = ("draft-04", "draft-06", "draft-07", "2019-09", "2020-12")
#: Keywords whose values are no schemas.
_VALUES = frozenset(("const", "default", "enum", "examples"))
#: How many types a schema may have, those that are referred to where they stand.
_MOST_TYPES = 10_000
#: Keywords that allow one thing or another.
_CHOICES = ("oneOf", "anyOf", "allOf", "if", "not")


def columns(text: str) -> tuple[Column, ...]:
    """Return the columns of the objects that a schema describes.

    Raises:
        ValueError: it is none, refers to others, or describes no object with properties.
    """
    try:
        root = _checked(text)
        return _Columns(root).all()
    except (TypeError, AttributeError):
        raise ValueError("the schema is none: a keyword has a value that it can't have") from None
    except RecursionError:
        raise ValueError("the schema is nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the schema is no JSON: {error}") from None


def check(text: str) -> None:
    """Look whether a text is a schema that stands by itself.

    Raises:
        ValueError: it is not.
    """
    try:
        _checked(text)
    except RecursionError:
        raise ValueError("the schema is nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the schema is no JSON: {error}") from None


def top(text: str) -> tuple[tuple[str, ...], frozenset[str] | None]:
    """Return the properties that a schema needs at the top, and those that it allows, None for any.

    Raises:
        ValueError: it is no schema that stands by itself.
    """
    check(text)
    root = json.loads(text)
    held, _ = _Columns(root).plain(root, ())
    held = held or {}
    needed = held.get("required")
    names = tuple(map(str, needed)) if isinstance(needed, list) else ()
    closed = held.get("additionalProperties") is False and "patternProperties" not in held
    properties = held.get("properties")
    known = frozenset(properties) if isinstance(properties, dict) else frozenset()
    return names, known if closed else None


def _checked(text: str) -> Any:
    root = json.loads(text)
    held = root if isinstance(root, dict) else {}
    draft = held.get("$schema")
    if draft is not None and not (isinstance(draft, str) and any(d in draft for d in _DRAFTS)):
        raise ValueError(f"nothing is known of the $schema {str(draft)[:100]!r}")
    own = held.get("$id", held.get("id"))
    _look(root, own.partition("#")[0] if isinstance(own, str) else "")
    return root


def _look(held: Any, own: str) -> None:
    """Refuse what refers to other files: a plan, and a task, goes nowhere."""
    if isinstance(held, dict):
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            its = held.get(name)
            if isinstance(its, str) and its.partition("#")[0] not in ("", own):
                raise ValueError(f"it refers to {its[:200]}, which is not in it")
        for name, each in held.items():
            if name not in _VALUES:
                _look(each, own)
    elif isinstance(held, list):
        for each in held:
            _look(each, own)


class _Columns:
    """Makes types of a schema's."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MOST_TYPES

    def all(self) -> tuple[Column, ...]:
        held, _ = self.plain(self._root, ())
        properties = held.get("properties") if held is not None else None
        if not isinstance(properties, dict) or not properties:
            raise ValueError("the schema describes no object with properties")
        if odd := [key for key in _CHOICES if key in (held or {})]:
            told = f"the schema has `{odd[0]}`, which may have other properties"
            raise ValueError(f"{told}: declare the columns (`schema`)")
        if (held or {}).get("type", "object") not in ("object", ["object"]):
            raise ValueError("the schema describes no object with properties")
        required = held.get("required") if held is not None else ()
        needed = frozenset(required if isinstance(required, list) else ())
        made = []
        for name, its in properties.items():
            kind, nullable = self._type(its, (), name)
            null = "" if nullable or name not in needed else " NOT NULL"
            made.append(f"{quoted(name)} {kind}{null}")
        return tuple(read_columns(", ".join(made)))

    def _type(self, schema: Any, within: Sequence[str], path: str) -> tuple[str, bool]:
        """Return a column's type, and whether it may be null."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"the schema has more than {_MOST_TYPES:,} types")
        held, seen = self.plain(schema, within)
        if held is None:
            return _VARIANT, True
        words = held.get("type")
        words = words if isinstance(words, list) else [words] if words is not None else []
        if unknown := [str(word) for word in words if word not in _TYPES]:
            raise ValueError(f"{path}: there is no type {unknown[0]}")
        nullable = "null" in words or any(None is each for each in held.get("enum") or ())
        plain = [word for word in words if word != "null"]
        if not plain and held.get("enum") and all(isinstance(e, str | None) for e in held["enum"]):
            plain = ["string"]
        if len(plain) != 1 or any(key in held for key in _CHOICES):
            return _VARIANT, True
        return self._of(plain[0], held, seen, path), nullable

    def _of(self, word: str, held: Any, within: Sequence[str], path: str) -> str:
        if word == "string":
            if held.get("contentEncoding") == "base64":
                return "BINARY"
            return _TEXTS.get(str(held.get("format")), "STRING")
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word == "array":
            items = held.get("items")
            if not isinstance(items, dict) or "prefixItems" in held:
                return _VARIANT
            return f"ARRAY<{self._type(items, within, f'{path}[]')[0]}>"
        properties, more = held.get("properties"), held.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            if len({name.lower() for name in properties}) < len(properties):
                return _VARIANT
            inside = ", ".join(
                f"{quoted(name)}: {self._type(its, within, f'{path}.{name}')[0]}"
                for name, its in properties.items()
            )
            return f"STRUCT<{inside}>"
        if isinstance(more, dict) and more and "patternProperties" not in held:
            return f"MAP<STRING, {self._type(more, within, f'{path}{{}}')[0]}>"
        return _VARIANT

    def plain(
        self, schema: Any, within: Sequence[str]
    ) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
        """Return a schema with its reference looked up; None for one that can't be, or is in itself."""
        seen = tuple(within)
        while isinstance(schema, dict) and isinstance(ref := schema.get("$ref"), str):
            pointer = ref[ref.index("#") :] if "#" in ref else "#"
            # The whole schema is in itself; other names than pointers are the validator's alone.
            if ref in seen or schema.keys() - _BESIDE or not pointer.startswith("#/"):
                return None, seen
            seen = (*seen, ref)
            schema = _pointed(self._root, pointer)
        if not isinstance(schema, dict):
            return None, seen
        # What has an address of its own has references of its own.
        its_own = any(isinstance(schema.get(key), str) for key in ("$id", "id"))
        return (None if its_own and schema is not self._root else schema), seen


def _pointed(root: Any, ref: str) -> Any:
    """Return what a reference points at.

    Raises:
        ValueError: nothing.
    """
    found = root
    for part in ref.removeprefix("#").split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            raise ValueError(f"it refers to {ref}, which is not there")
    return found
