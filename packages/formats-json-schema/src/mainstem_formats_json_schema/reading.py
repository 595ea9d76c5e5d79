"""JSON values become columns, if a schema allows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from mainstem.arrays import json_reader
from mainstem.columns import Column
from mainstem_registry import RegistryOptions, Schemas, UnknownSchema

from mainstem_formats_json_schema.rules import Rules

_KIND = "JSON"
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
        self._rules = Rules(schema)
        self._schemas = None if registry is None else Schemas(registry, framing)
        self._heads: dict[bytes, str] = {}

    def read(
        self, values: pa.Array[Any], *headers: pa.Array[Any]
    ) -> tuple[list[pa.Array[Any]], list[str | None]]:
        """Return the columns of an array of bytes, and why rows are refused.

        Args:
            headers: what a framing reads of the messages' headers.

        Raises:
            TransientError: the registry was away for too long.
            PermanentError: the registry refuses to be asked.
        """
        flaws: dict[int, str] = {}
        if self._schemas is not None:
            values = self._schemas.framing.framed(values, *headers)
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
        # What is wrong by the schema is told before what does not fit into a column.
        return self._rules.flaw(held) or reason

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
            name = schemas.framing.schema_name(head)
            found = "" if kind in ("", _KIND) else f"{name} is {kind}"
            if len(self._heads) >= _MOST_KEPT:
                self._heads.clear()
            self._heads[head] = found
        return found
