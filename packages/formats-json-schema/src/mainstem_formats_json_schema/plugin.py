"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Format, hookimpl

from mainstem_formats_json_schema.format import JsonSchema


@hookimpl
def mainstem_formats() -> dict[str, type[Format]]:
    return {"json-schema": JsonSchema}
