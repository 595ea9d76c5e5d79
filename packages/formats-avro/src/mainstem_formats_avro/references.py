"""Schemas that refer to named types of others become whole ones. For plans: without a library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mainstem_formats_avro.schemas import NAMED, PRIMITIVES, collect, whole_name


def whole(text: str, others: Sequence[str]) -> str:
    """Return a schema with the named types of others, each where it refers to it first.

    Raises:
        ValueError: one is no JSON, or they are nested too deep.
    """
    if not others:
        return text
    try:
        known: dict[str, tuple[Any, str]] = {}
        for other in others:
            collect(json.loads(other), "", known)
        return json.dumps(_Joined(known).type(json.loads(text), ""))
    except RecursionError:
        raise ValueError("the schema is nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"a schema is no JSON: {error}") from None


class _Joined:
    """Walks a schema in the order in which Avro defines names."""

    def __init__(self, known: Mapping[str, tuple[Any, str]]) -> None:
        self._known = known
        self._there: set[str] = set()

    def type(self, schema: Any, space: str) -> Any:
        """Return a type that stands in a namespace."""
        if isinstance(schema, list):
            return [self.type(each, space) for each in schema]
        if isinstance(schema, str):
            name = whole_name(schema, space)
            if schema in PRIMITIVES or schema == "null" or name in self._there:
                return schema
            known = self._known.get(name)
            return schema if known is None else self._named(known[0], name)
        if not isinstance(schema, dict):
            return schema
        word = schema.get("type")
        if word in NAMED:
            own = schema.get("namespace")
            name = whole_name(str(schema.get("name")), own if isinstance(own, str) else space)
            return (
                name if name in self._there and name in self._known else self._named(schema, name)
            )
        made = dict(schema)
        if isinstance(word, dict | list) or word not in ("array", "map", *PRIMITIVES):
            made["type"] = self.type(word, space)
        for key in ("items", "values"):
            if key in schema:
                made[key] = self.type(schema[key], space)
        return made

    def _named(self, schema: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return the definition of a type, with its whole name, so that it may stand anywhere."""
        self._there.add(name)
        space, _, short = name.rpartition(".")
        made = {**schema, "name": short, "namespace": space}
        fields = schema.get("fields")
        if isinstance(fields, list):
            made["fields"] = [
                {**each, "type": self.type(each.get("type"), space)}
                if isinstance(each, dict)
                else each
                for each in fields
            ]
        return made
