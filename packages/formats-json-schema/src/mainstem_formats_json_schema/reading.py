"""JSON values become columns, if a schema allows them; the only module that imports the library."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema_rs
import msgspec
import pyarrow as pa
from mainstem import PermanentError
from mainstem.arrays import json_reader
from mainstem.columns import Column
from mainstem_registry import RegistryOptions, Schemas, UnknownSchema

_KIND = "JSON"
#: How many wrong places of a value are told.
_MOST_TOLD = 3
#: How many numbers of schemas are kept.
_MOST_KEPT = 10_000


class JsonSchemaValues:
    """Reads JSON objects that a schema allows.

    Args:
        schema: its text.
        columns: that come out.
        registry: the one that numbers schemas; None where values have none before them.
        framing: how they have.

    Raises:
        PermanentError: the schema is none.
    """

    def __init__(
        self,
        schema: str,
        columns: Sequence[Column],
        registry: RegistryOptions | None = None,
        framing: str = "none",
    ) -> None:
        self._read = json_reader(columns)
        self._names = frozenset(_names(json.loads(schema)))
        try:
            self._validator = jsonschema_rs.validator_for(
                json.loads(schema), validate_formats=True, retriever=_nowhere
            )
        except Exception as error:
            told = str(error).partition("\n")[0][:300]
            raise PermanentError(f"the schema is no JSON Schema: {told}") from None
        self._schemas = None if registry is None else Schemas(registry, framing)
        self._heads: dict[bytes, str] = {}

    def read(self, values: pa.Array[Any]) -> tuple[list[pa.Array[Any]], list[str | None]]:
        """Return the columns of an array of bytes, and why rows are refused.

        Raises:
            TransientError: the registry was away for too long.
            PermanentError: the registry refuses to be asked.
        """
        flaws: dict[int, str] = {}
        if self._schemas is not None:
            values = self._behind_heads(values, self._schemas, flaws)
        arrays, reasons = self._read(values)
        for number, value in enumerate(values.to_pylist()):
            if number in flaws:
                reasons[number] = flaws[number]
            elif value is not None:
                reasons[number] = self._flaw(value, reasons[number])
        return arrays, reasons

    def _flaw(self, value: bytes, reason: str | None) -> str | None:
        """Return why a value is refused; `reason` is why it does not fit into the columns."""
        try:
            held = msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return reason or "the schema can't be looked at: a number is beyond all limits"
        try:
            if self._validator.is_valid(held):
                return reason
            # What is wrong by the schema is told before what does not fit into a column.
            errors = self._validator.iter_errors(held)
            found = [self._place(each) for _, each in zip(range(_MOST_TOLD), errors, strict=False)]
        except Exception as error:  # too deep, or a pattern that takes too long
            return f"the schema can't be looked at ({type(error).__name__})"
        return ", ".join(dict.fromkeys(found)) or "the schema does not allow it"

    def _place(self, error: Any) -> str:
        """Return where a value is wrong, and by which keyword: never what stands there."""
        parts = [
            str(each) if isinstance(each, int) or each in self._names else "*"
            for each in error.instance_path
        ]
        keywords = [str(part) for part in error.schema_path if not str(part).isdigit()]
        keyword = keywords[-1] if keywords else "false"
        return f"{'.'.join(parts)[:200]}: {keyword}" if parts else keyword

    def _behind_heads(
        self, values: pa.Array[Any], schemas: Schemas, flaws: dict[int, str]
    ) -> pa.Array[Any]:
        made: list[bytes | None] = []
        size = schemas.framing.size
        for number, value in enumerate(values.to_pylist()):
            made.append(None if value is None else value[size:])
            if value is not None and (flaw := self._head_flaw(value[:size], schemas)):
                flaws[number] = flaw
                made[-1] = None
        return pa.array(made, pa.binary())

    def _head_flaw(self, head: bytes, schemas: Schemas) -> str:
        """Return what is wrong with a head, empty for nothing."""
        found = self._heads.get(head)
        if found is None:
            try:
                kind = schemas.schema(head).kind
            except UnknownSchema as error:
                return str(error)
            number = schemas.framing.number(head)
            found = "" if kind == _KIND else f"schema {number} is {kind}"
            if len(self._heads) >= _MOST_KEPT:
                self._heads.clear()
            self._heads[head] = found
        return found


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
