"""Checks values against a model and turns pydantic's errors into problems with lines."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mainstem.contracts.options import write_duration
from mainstem.document.model import Document, OperatorNode, SinkNode, SourceNode
from mainstem.document.reading import QUOTES, Path_, Written, read_text
from mainstem.errors import DocumentError, article, nearest

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
    places: list[Path_] = []
    empty: set[Path_] = set()
    for details in errors:
        kind, loc = details["type"], details["loc"]
        place = _existing(values, loc)
        full = (*path, *place)
        if full in written.unresolved:
            continue  # a problem already
        if kind == "extra_forbidden":
            allowed = _keys_at(model, loc[:-1], values)
            hint = nearest(str(loc[-1]), allowed)
            if "with" in allowed:
                below = f"An option of the plugin stands below `with`: `with: {{{loc[-1]}: ...}}`."
                hint = f"{hint} {below}".lstrip()
            # The rest of a value, perhaps, that was cut at a comma.
            if not hint and re.search(r"[ ()]", str(loc[-1])):
                hint = QUOTES
            hint = hint or f"Known keys: {', '.join(sorted(allowed))}."
            message = f"unknown key {loc[-1]!r}"
            places.append(full)
            written.problems.append(written.problem(message, full, hint=hint, at_key=True))
        elif kind == "missing":
            message = f"key {str(loc[-1])!r} is missing"
            places.append((*full, str(loc[-1])))
            written.problems.append(written.problem(message, (*full, str(loc[-1])), at_key=True))
        else:
            shown = ""
            secret = full in referring or _is_secret(_schema_at(model, loc, values)[0])
            if (
                not secret
                and details["input"] != ""
                and isinstance(details["input"], str | int | float)
            ):
                shown = f", not {details['input']!r}"
            text = _plain(details)
            if not text.startswith("expected") or shown.removeprefix(", not ") in text:
                shown = ""
            if details["input"] is None:
                empty.add(full)
            messages.setdefault(full, []).append(text + shown)
    places += messages
    for full, found in messages.items():
        if any(place[: len(full)] == full and place != full for place in places):
            continue  # of a branch of a union, where another one has looked inside
        # Each branch of a union has its own complaint: one problem tells them all.
        text = "; or ".join(dict.fromkeys(found))
        hint = "Nothing stands there." if full in empty else ""
        written.problems.append(written.problem(text, full, hint=hint))


#: A length of time as pydantic names some limits.
_TIME = re.compile(r"datetime\.timedelta\(([^()]*)\)")


def _duration(parts: str) -> str:
    """Return a length of time, of which Python's words are given, as documents have it."""
    named = (part.partition("=") for part in parts.split(", "))
    return write_duration(timedelta(**{name: int(value) for name, _, value in named if value}))


def _plain(details: ErrorDetails) -> str:
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] in ("too_short", "string_too_short"):
        least = details.get("ctx", {}).get("min_length", 1)
        one, more = (
            ("character", "characters") if "string" in details["type"] else ("entry", "entries")
        )
        return f"expected at least {least} {one if least == 1 else more}"
    if details["type"] == "string_pattern_mismatch":
        pattern = details.get("ctx", {}).get("pattern", "")
        return f"expected a name that matches {pattern}"
    message = _TIME.sub(lambda found: _duration(found[1]), message)
    return (
        re.sub("a valid (\\w+)", lambda found: article(found[1]), message)
        .replace("Input should be", "expected")
        .replace("an dictionary", "a map")
        .replace("a dictionary", "a map")
        .replace("an object", "a map")
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
    there = _at(values, _existing(values, loc))
    return list(_resolved(schema, definitions, there).get("properties", {}))


def _is_secret(schema: Any) -> bool:
    """Whether a value is one that is never printed."""
    branches = [schema, *schema.get("anyOf", []), schema.get("items") or {}]
    return any(isinstance(b, dict) and b.get("format") == "password" for b in branches)


@lru_cache(maxsize=64)
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return a model's JSON Schema, which takes longer than all that is asked of it."""
    return model.model_json_schema(by_alias=True)


def _schema_at(model: type[BaseModel], loc: tuple[int | str, ...], values: Any) -> tuple[Any, Any]:
    """Return the JSON Schema of what stands at a location, and the definitions it refers to."""
    schema: Any = _schema(model)
    definitions = schema.get("$defs", {})
    there = values
    for part in _existing(values, loc):
        schema = _resolved(schema, definitions, there)
        there = there[part]
        inner = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        inner = [schema.get("properties", {}).get(part), *inner, schema.get("items")]
        schema = next((found for found in inner if found), {})
    return schema, definitions


def _resolved(schema: Any, definitions: Any, value: Any) -> Any:
    """Return a schema without references; of several the one that a value names, or the first."""
    said = schema.get("discriminator", {})
    chosen = value.get(said.get("propertyName")) if isinstance(value, dict) else None
    if isinstance(chosen, str) and chosen in said.get("mapping", {}):
        return definitions[said["mapping"][chosen].rpartition("/")[2]]
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


def salvaged(values: Any, written: Written) -> Document:
    """Return what is right of a document that is wrong, to find what else is.

    Nodes stay, without the keys that are wrong, if they name a plugin and, where they must, an input;
    of all else there is what is used when it is left out.
    """
    sections: dict[str, dict[str, Any]] = {}
    for section, model in (
        ("sources", SourceNode),
        ("operators", OperatorNode),
        ("sinks", SinkNode),
    ):
        nodes = values.get(section) if isinstance(values, dict) else None
        found = sections[section] = {}
        for name, node in nodes.items() if isinstance(nodes, dict) else ():
            for given in (node, _without_faults(model, node)):
                try:
                    text = json.dumps(given)
                    found[name] = model.model_validate_json(
                        text, strict=True, context={"folder": str(written.folder)}
                    )
                    break
                except ValidationError:
                    continue
    plain = {
        name: field.get_default(call_default_factory=True)
        for name, field in Document.model_fields.items()
        if name not in sections and not field.is_required()
    }
    everything: dict[str, Any] = {"pipeline": "", **plain, **sections}
    return Document.model_construct(None, **everything)


def _without_faults(model: type[BaseModel], node: Any) -> Any:
    try:
        model.model_validate_json(json.dumps(node), strict=True)
    except ValidationError as error:
        wrong = {details["loc"][0] for details in error.errors() if details["loc"]}
        return {k: v for k, v in node.items() if k not in wrong} if isinstance(node, dict) else node
    return node
