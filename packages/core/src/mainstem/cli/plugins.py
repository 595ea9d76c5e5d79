"""What `mainstem plugins show WORD` prints."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from inspect import cleandoc
from typing import Any, get_args

from pydantic import BaseModel

from mainstem.catalogue import install_line
from mainstem.contracts.ability import abilities
from mainstem.contracts.capabilities import Shown
from mainstem.contracts.components import Component, Operator, Sink
from mainstem.contracts.formats import Format
from mainstem.contracts.options import write_duration
from mainstem.contracts.shapes import Accepts
from mainstem.discovery import GROUPS, Word
from mainstem.errors import PluginError, nearest
from mainstem.registry import Registry


def details(word: str, registry: Registry | None = None) -> str:
    """Return all that is known of a word, for every kind that has it.

    Raises:
        PluginError: no kind has the word, or its plugin does not work.
    """
    registry = registry or Registry()
    name = word.rpartition(":")[2]
    lines: list[str] = []
    for entry in _entries(word, registry):
        lines += [f"{entry.kind} {name}  ({entry.distribution} {entry.version})"]
        component = _loaded(entry, registry)
        if isinstance(component, PluginError):
            lines += [f"  broken: {component}", ""]
            continue
        lines += [f"  {line}" for line in _component(component)] + [""]
    return "\n".join(lines)


def as_json(word: str, registry: Registry | None = None) -> list[dict[str, Any]]:
    """Return the same as JSON has it; options are a JSON Schema.

    Raises:
        PluginError: no kind has the word.
    """
    registry = registry or Registry()
    found = []
    for entry in _entries(word, registry):
        told: dict[str, Any] = {
            "kind": entry.kind,
            "word": entry.name,
            "distribution": entry.distribution,
            "version": entry.version,
        }
        component = _loaded(entry, registry)
        if isinstance(component, PluginError):
            found.append({**told, "broken": str(component)})
            continue
        facts = getattr(component, "capabilities", None)
        found.append(
            {
                **told,
                "broken": None,
                "about": cleandoc(component.__doc__ or ""),
                "ports": _ports(component),
                "abilities": abilities(component),
                "capabilities": _flags(facts),
                "shown": _shown(facts) if _flags(facts) else [],
                **{
                    name.replace(" ", "_"): model.model_json_schema(by_alias=True)
                    for name, model in _option_models(component).items()
                },
            }
        )
    return found


def _entries(word: str, registry: Registry) -> list[Word]:
    """Return what brings a word, by kind.

    Raises:
        PluginError: nothing does.
    """
    found = [
        w
        for w in registry.words
        if w.kind in GROUPS and word in (w.name, f"{w.distribution}:{w.name}")
    ]
    if not found:
        raise PluginError(_missing(word, registry))
    return found


def _loaded(entry: Word, registry: Registry) -> type[Component] | PluginError:
    try:
        return registry.component(entry.kind, f"{entry.distribution}:{entry.name}")
    except PluginError as error:
        return error


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
    lines += _ports(component)
    lines.append(f"abilities: {', '.join(abilities(component)) or 'none'}")
    facts = getattr(component, "capabilities", None)
    if flags := _flags(facts):
        lines.append(f"capabilities: {', '.join(f'{name}={is_}' for name, is_ in flags.items())}")
        lines += [f"shown: {text}" for text in _shown(facts)]
    for name, model in _option_models(component).items():
        lines += [f"{name}:", *(_options(model, "  ") or ["  none"])]
    return lines


def _ports(component: type[Component]) -> list[str]:
    """Return what an operator or a sink takes, in words."""
    if issubclass(component, Sink):
        return [f"takes {_accepts(component.accepts)}"]
    if issubclass(component, Operator) and isinstance(component.ports, dict):
        return [f"port {port}: {_accepts(accepts)}" for port, accepts in component.ports.items()]
    return []


def _flags(facts: Any) -> dict[str, bool]:
    """Return what is told of a component's capabilities; nothing where they go by its options."""
    if facts is None or isinstance(facts, property):
        return {}
    told = {f.name: getattr(facts, f.name) for f in fields(facts)}
    return {name: value for name, value in told.items() if isinstance(value, bool)}


def _option_models(component: type[Component]) -> dict[str, type[BaseModel]]:
    """Return the models of a component's options; a format has two."""
    if not issubclass(component, Format):
        return {"options": component.options_model()}
    halves = {"options of decode": component.decoder, "options of encode": component.encoder}
    return {name: half.options_model() for name, half in halves.items() if half is not None}


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
