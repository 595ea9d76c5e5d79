"""Checks values against a model and turns pydantic's errors into problems with lines."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mainstem.document.reading import Path_, Written, read_text
from mainstem.errors import DocumentError, nearest

M = TypeVar("M", bound=BaseModel)


def check(
    model: type[M], values: Any, written: Written, path: Path_, referring: set[Path_]
) -> M | None:
    """Return `values` as the model, or None after adding every problem to `written`.

    Values are taken strictly: the text `"5"` is no number. What a reference resolved to is read as
    a YAML scalar where its text does not fit, since an environment variable is always text.
    """
    context = {"folder": str(written.folder)}
    try:
        return model.model_validate_json(json.dumps(values), strict=True, context=context)
    except ValidationError as error:
        first = error.errors()
    for details in first:
        place = _existing(values, details["loc"])
        if (*path, *place) in referring:
            values = _with(values, place, _as_scalar(_at(values, place)))
    try:
        return model.model_validate_json(json.dumps(values), strict=True, context=context)
    except ValidationError as error:
        _report(error.errors(), model, values, written, path, referring)
        return None


def _report(
    errors: list[ErrorDetails],
    model: type[BaseModel],
    values: Any,
    written: Written,
    path: Path_,
    referring: set[Path_],
) -> None:
    messages: dict[Path_, list[str]] = {}
    for details in errors:
        kind, loc = details["type"], details["loc"]
        place = _existing(values, loc)
        full = (*path, *place)
        if kind == "extra_forbidden":
            allowed = _keys_at(model, loc[:-1], values)
            hint = nearest(str(loc[-1]), allowed) or f"Known keys: {', '.join(sorted(allowed))}."
            message = f"unknown key {loc[-1]!r}"
            written.problems.append(written.problem(message, full, hint=hint, at_key=True))
        elif kind == "missing":
            message = f"key {str(loc[-1])!r} is missing"
            written.problems.append(written.problem(message, (*full, str(loc[-1])), at_key=True))
        else:
            shown = ""
            secret = full in referring or _is_secret(_schema_at(model, loc, values)[0])
            if not secret and isinstance(details["input"], str | int | float):
                shown = f", not {details['input']!r}"
            messages.setdefault(full, []).append(_plain(details) + shown)
    for full, found in messages.items():
        # Each branch of a union has its own complaint: one problem tells them all.
        text = "; or ".join(dict.fromkeys(found))
        written.problems.append(written.problem(text, full))


def _plain(details: ErrorDetails) -> str:
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] == "string_pattern_mismatch":
        pattern = details.get("ctx", {}).get("pattern", "")
        return f"expected a name that matches {pattern}"
    return (
        message.replace("Input should be", "expected")
        .replace("a valid integer", "an integer")
        .replace("a valid ", "a ")
    )


def _existing(values: Any, loc: tuple[int | str, ...]) -> Path_:
    """Return the part of pydantic's location that is in the values (its union tags are not)."""
    place: list[int | str] = []
    for part in loc:
        inside = values if isinstance(values, dict) else {}
        if isinstance(values, list):
            inside = dict(enumerate(values))
        if part in inside:
            values = inside[part]
            place.append(part)
    return tuple(place)


def _keys_at(model: type[BaseModel], loc: tuple[int | str, ...], values: Any) -> list[str]:
    """Return the keys a model allows at a location, for the nearest right word."""
    schema, definitions = _schema_at(model, loc, values)
    return list(_resolved(schema, definitions).get("properties", {}))


def _is_secret(schema: Any) -> bool:
    """Whether a value is one that is never printed."""
    branches = [schema, *schema.get("anyOf", []), schema.get("items") or {}]
    return any(isinstance(b, dict) and b.get("format") == "password" for b in branches)


def _schema_at(model: type[BaseModel], loc: tuple[int | str, ...], values: Any) -> tuple[Any, Any]:
    """Return the JSON Schema of what stands at a location, and the definitions it refers to."""
    schema: Any = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    for part in _existing(values, loc):
        schema = _resolved(schema, definitions)
        inner = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        inner = [schema.get("properties", {}).get(part), *inner, schema.get("items")]
        schema = next((found for found in inner if found), {})
    return schema, definitions


def _resolved(schema: Any, definitions: Any) -> Any:
    for branch in [schema, *schema.get("anyOf", []), *schema.get("oneOf", [])]:
        if "$ref" in branch:
            return definitions[branch["$ref"].rpartition("/")[2]]
    return schema


def _at(values: Any, place: Path_) -> Any:
    for part in place:
        values = values[part]
    return values


def _with(values: Any, place: Path_, value: Any) -> Any:
    if not place:
        return value
    copy: Any = dict(values) if isinstance(values, dict) else list(values)
    copy[place[0]] = _with(values[place[0]], place[1:], value)
    return copy


def _as_scalar(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return read_text(f"value: {text}").values["value"]
    except DocumentError:
        return text
