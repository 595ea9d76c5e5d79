"""What `mainstem plugins show WORD` prints."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any, get_args

from pydantic import BaseModel

from mainstem.catalogue import install_line
from mainstem.contracts.ability import abilities
from mainstem.contracts.capabilities import Shown
from mainstem.contracts.components import Component, Operator, Sink
from mainstem.contracts.options import write_duration
from mainstem.contracts.shapes import Accepts
from mainstem.discovery import GROUPS
from mainstem.errors import PluginError, nearest
from mainstem.registry import Registry


def details(word: str, registry: Registry | None = None) -> str:
    """Return all that is known of a word, for every kind that has it.

    Raises:
        PluginError: no kind has the word, or its plugin does not work.
    """
    registry = registry or Registry()
    name = word.rpartition(":")[2]
    found = [
        w
        for w in registry.words
        if w.kind in GROUPS and word in (w.name, f"{w.distribution}:{w.name}")
    ]
    if not found:
        raise PluginError(_missing(word, registry))
    lines: list[str] = []
    for entry in found:
        lines += [f"{entry.kind} {name}  ({entry.distribution} {entry.version})"]
        try:
            component = registry.component(entry.kind, f"{entry.distribution}:{name}")
        except PluginError as error:
            lines += [f"  broken: {error}", ""]
            continue
        lines += [f"  {line}" for line in _component(component)] + [""]
    return "\n".join(lines)


def _missing(word: str, registry: Registry) -> str:
    """Return why nothing is known of a word, and the next step."""
    lines = [line for kind in GROUPS if (line := install_line(kind, word))]
    if lines:
        return f"{word!r} is not installed. Install it: {lines[0]}"
    if any(w.name == word for w in registry.words):
        return f"{word!r} is a command and no component: see `mainstem {word} --help`"
    hint = nearest(word.rpartition(":")[2], {w.name for w in registry.words if w.kind in GROUPS})
    hint = hint or "`mainstem plugins` lists what is installed."
    return f"no installed distribution brings {word!r}. {hint}"


def _component(component: type[Component]) -> list[str]:
    lines = [line.strip() for line in (component.__doc__ or "").strip().splitlines()]
    if issubclass(component, Operator) and isinstance(component.ports, dict):
        lines += [f"port {port}: {_accepts(accepts)}" for port, accepts in component.ports.items()]
    if issubclass(component, Sink):
        lines.append(f"takes {_accepts(component.accepts)}")
    lines.append(f"abilities: {', '.join(abilities(component)) or 'none'}")
    facts = getattr(component, "capabilities", None)
    if facts is not None and not isinstance(facts, property):
        told = [
            f"{f.name}={getattr(facts, f.name)}"
            for f in fields(facts)
            if isinstance(getattr(facts, f.name), bool)
        ]
        lines.append(f"capabilities: {', '.join(told)}")
        lines += [f"shown: {text}" for text in _shown(facts)]
    lines.append("options:")
    return lines + (_options(component.options_model(), "  ") or ["  none"])


def _options(model: type[BaseModel], margin: str, variant: str = "") -> list[str]:
    """Return each option with what it takes and what it is when left out; options of options below it.

    Those that most users can pass by come last.

    Args:
        variant: the option that tells this model from others in its place: comes first, above the rest.
    """
    lines = []
    schema = model.model_json_schema(by_alias=True)
    known = schema["properties"] if model.model_fields else {}
    fields = sorted(
        model.model_fields.items(),
        key=lambda item: (
            item[0] != variant,
            known[item[1].alias or item[0]].get("advanced", False),
        ),
    )
    told = False
    for field_name, field in fields:
        key = field.alias or field_name
        default = "required" if field.is_required() else f"default {_default(field)}"
        kind = _type(known[key], schema.get("$defs", {}))
        if known[key].get("advanced") and not told:
            lines.append(f"{margin}seldom needed:")
            told = True
        lines.append(f"{margin}{key}: {kind}" + ("" if key == variant else f", {default}"))
        if field.description:
            lines.append(f"{margin}  {field.description}")
        if key == variant:
            margin += "    "
        for inner in _models(field.annotation):
            lines += _options(inner, margin + "    ", _variant(known[key]))
    return lines


def _variant(schema: dict[str, Any]) -> str:
    """Return the option that tells the models apart that can stand in one place; empty for one alone."""
    found = [schema, *schema.get("anyOf", ())]
    return next(
        (each["discriminator"]["propertyName"] for each in found if "discriminator" in each), ""
    )


def _models(kind: Any) -> list[type[BaseModel]]:
    """Return the models that a type speaks of, each once."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return list(dict.fromkeys(model for part in get_args(kind) for model in _models(part)))


def _shown(facts: Any) -> list[str]:
    """Return the levels that tests have shown, and where; of a sink, by delivery strategy."""
    found = getattr(facts, "shown", None) or {}
    if isinstance(found, Shown):
        return [f"{found.level} by {found.by}"]
    return [f"{shown.level} with deliver: {word}, by {shown.by}" for word, shown in found.items()]


def _accepts(accepts: Accepts) -> str:
    text = " or ".join(kind.__name__.lower() for kind in accepts.shapes)
    if accepts.columns:
        text += f" with {accepts.columns}"
    return text + (", with pre-images" if accepts.preimages else "")


def _default(field: Any) -> str:
    """Return what an option is when it is left out, as a document has it."""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, BaseModel):
        return "{}"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else repr(value)


def _type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        keys = ", ".join(definitions.get(name, {}).get("properties", {}))
        return f"{{{keys}}}"
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if name := schema.get("discriminator", {}).get("propertyName"):
        variants = [definitions[part["$ref"].rpartition("/")[2]] for part in schema["oneOf"]]
        kinds = [_type(variant["properties"][name], definitions) for variant in variants]
        return f"{{{name}: {' | '.join(kinds)}, ...}}"
    if either := schema.get("anyOf") or schema.get("oneOf"):
        parts = [_type(part, definitions) for part in either]
        return " | ".join(dict.fromkeys(part for part in parts if part != "null"))
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " | ".join(kind)
    if kind == "array":
        return f"list of {_type(schema.get('items', {}), definitions)}"
    if kind == "object":
        more = schema.get("additionalProperties")
        return f"map to {_type(more if isinstance(more, dict) else {}, definitions)}"
    return str(kind)
