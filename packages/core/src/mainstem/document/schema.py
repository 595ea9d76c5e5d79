"""The JSON Schema of documents, made from the options of the installed plugins.

It is never stricter than `validate`: where an option takes a number, it also takes text with a
reference in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from mainstem.contracts.options import Options
from mainstem.document.model import Document
from mainstem.document.references import PATTERN
from mainstem.errors import OptionError, PluginError
from mainstem.registry import Registry

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: The definitions of the document's model that hold a component, with the kind each may hold.
_HOLDERS = {
    "SourceNode": "source",
    "OperatorNode": "operator",
    "SinkNode": "sink",
    "StateNode": "state store",
    "ObserverNode": "observer",
    "Component": "delivery",
}
#: `distribution:word`
_QUALIFIED = {"type": "string", "pattern": "^[A-Za-z0-9._-]+:[A-Za-z0-9_.-]+$"}


def json_schema(registry: Registry) -> dict[str, Any]:
    """Return the schema of all documents that the installed plugins can serve.

    The words of a plugin that can't be imported are in it, with options that anything fits.
    """
    schema = Document.model_json_schema(by_alias=True, mode="validation")
    definitions = schema["$defs"]
    for holder, kind in _HOLDERS.items():
        definition = definitions[holder]
        words = registry.named(kind)
        if not words:
            continue
        choices = []
        for word in words:
            for given, options in _uses(registry, kind, word, definitions):
                told = {name: {"const": value} for name, value in given.items()}
                choices.append(
                    {
                        "if": {
                            "properties": {
                                "use": {"const": word},
                                **({"with": _having(told)} if told else {}),
                            },
                            "required": ["use", "with"] if told else ["use"],
                        },
                        "then": {"properties": {"with": options}, **_required(options)},
                    }
                )
        definition["allOf"] = choices
        use = [{"enum": words}, _QUALIFIED, _reference()]
        description = definition["properties"]["use"].get("description", "")
        definition["properties"]["use"] = {"description": description, "anyOf": use}
        if kind == "delivery":  # may be a word alone
            deliver = definitions["SinkNode"]["properties"]["deliver"]
            others = [each for each in deliver["anyOf"] if each.get("type") != "string"]
            deliver["anyOf"] = [*use, *others]
    schema = _with_references(schema)
    return {"$schema": _DIALECT, "title": "Mainstem pipeline", **schema}


def _uses(
    registry: Registry, kind: str, word: str, definitions: dict[str, Any]
) -> Iterator[tuple[Mapping[str, str], dict[str, Any]]]:
    """Yield what a use of a word gives of `option_kinds`, and the schema of its options then."""
    try:
        component = registry.component(kind, word)
    except PluginError:
        return
    prefix = f"{kind.replace(' ', '_')}.{word}."
    about = (component.__doc__ or "").strip().partition("\n")[0]
    if not component.option_kinds:
        yield {}, _options(component.options_model(), prefix, about, definitions)
        return
    for name, of in component.option_kinds.items():
        for named in registry.named(of):
            with suppress(PluginError, OptionError):
                model = component.options_for({name: named}, registry.component)
                options = _options(model, f"{prefix}{named}.", about, definitions)
                yield {name: named}, options
        one = {"anyOf": [{"enum": registry.named(of)}, _QUALIFIED]}
        yield {}, {"type": "object", "description": about, **_having({name: one})}


def _having(properties: dict[str, Any]) -> dict[str, Any]:
    return {"properties": properties, "required": list(properties)}


def _options(
    model: type[Options], prefix: str, about: str, definitions: dict[str, Any]
) -> dict[str, Any]:
    options = model.model_json_schema(by_alias=True, mode="validation")
    inner = options.pop("$defs", {})
    for name, definition in inner.items():
        definitions[prefix + name] = _renamed(definition, prefix)
    options = _renamed(options, prefix)
    options.setdefault("description", about)
    return dict(options)


def _required(options: dict[str, Any]) -> dict[str, Any]:
    return {"required": ["with"]} if options.get("required") else {}


def _renamed(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):
        return {
            key: "#/$defs/" + prefix + item.rpartition("/")[2]
            if key == "$ref"
            else _renamed(item, prefix)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_renamed(item, prefix) for item in value]
    return value


def _reference() -> dict[str, Any]:
    return {"type": "string", "pattern": PATTERN}


def _with_references(schema: Any) -> Any:
    """Let every scalar be text with a reference in it, wherever a value is described."""
    if isinstance(schema, list):
        return [_with_references(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "patternProperties", "$defs"):
            result[key] = {name: _with_references(item) for name, item in value.items()}
        elif key in ("anyOf", "allOf", "oneOf", "items", "additionalProperties", "then"):
            result[key] = _with_references(value)
        else:
            result[key] = value  # `if`, `enum`, `propertyNames`, defaults: as they are
    scalar = result.get("type") in ("integer", "number", "boolean") or (
        result.get("type", "string") == "string"
        and ("enum" in result or "const" in result or "pattern" in result or "minLength" in result)
    )
    if scalar and result.get("pattern") != PATTERN:
        words = {
            k: result.pop(k) for k in ("title", "description", "default", "examples") if k in result
        }
        return {**words, "anyOf": [result, _reference()]}
    return result
