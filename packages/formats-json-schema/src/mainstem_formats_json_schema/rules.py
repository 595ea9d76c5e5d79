"""What a schema allows: the only module that imports the library."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema_rs
from mainstem import PermanentError

#: How many wrong places of a value are told.
_MOST_TOLD = 3


class Rules:
    """Looks whether a schema allows values.

    Args:
        schema: its text.

    Raises:
        PermanentError: it is none.
    """

    def __init__(self, schema: str) -> None:
        held = json.loads(schema)
        self._names = frozenset(_names(held))
        try:
            self._validator = jsonschema_rs.validator_for(
                held, validate_formats=True, retriever=_nowhere
            )
        except Exception as error:
            told = str(error).partition("\n")[0][:300]
            raise PermanentError(f"the schema is no JSON Schema: {told}") from None

    def flaw(self, held: Any) -> str | None:
        """Return what the schema does not allow, None for nothing."""
        try:
            if self._validator.is_valid(held):
                return None
            errors = self._validator.iter_errors(held)
            found = [self._place(each) for _, each in zip(range(_MOST_TOLD), errors, strict=False)]
        except Exception as error:  # too deep, or a pattern that takes too long
            return f"the schema can't be looked at ({type(error).__name__})"
        return ", ".join(dict.fromkeys(found)) or "the schema does not allow it"

    def missing(self, held: Any) -> list[tuple[str | int, ...]]:
        """Return the paths to the properties that the schema needs, and that are not there."""
        try:
            return list(_missing(self._validator.iter_errors(held)))
        except Exception:  # as above, where it is told
            return []

    def _place(self, error: Any) -> str:
        """Return where a value is wrong, and by which keyword: never what stands there."""
        parts = [
            str(each) if isinstance(each, int) or each in self._names else "*"
            for each in error.instance_path
        ]
        keywords = [str(part) for part in error.schema_path if not str(part).isdigit()]
        keyword = keywords[-1] if keywords else "false"
        return f"{'.'.join(parts)[:200]}: {keyword}" if parts else keyword


def _missing(errors: Iterable[Any]) -> Iterator[tuple[str | int, ...]]:
    for error in errors:
        if error.kind.name == "required":
            yield (*error.instance_path, error.kind.property)
        for branch in getattr(error.kind, "context", ()):
            yield from _missing(branch)


def _nowhere(address: str) -> Any:
    raise ValueError(f"{address} is not in the schema")


def _names(held: Any) -> Iterator[str]:
    """Yield the names of properties that a schema has."""
    if isinstance(held, dict):
        properties = held.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for each in held.values():
            yield from _names(each)
    elif isinstance(held, list):
        for each in held:
            yield from _names(each)
