"""Wires the word to its class."""

from __future__ import annotations

from mainstem import Source, hookimpl

from .source import NewWordSource


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    """Return the sources of this distribution, by their words."""
    return {"newword": NewWordSource}
