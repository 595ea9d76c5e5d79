"""Rows become values of Avro, by the library; what it would write as something else is refused here."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from decimal import Context
from typing import Any

import pyarrow as pa
from fastavro import parse_schema, schemaless_writer
from mainstem.arrays import write_rows
from mainstem_registry import RegistryOptions, Schemas

from mainstem_formats_avro.fingerprints import mark_of
from mainstem_formats_avro.schemas import (
    EXACT,
    NOTHING,
    Node,
    default_of,
    read,
    without_logical,
)
from mainstem_formats_avro.single_values import Misfit

_Keep = Callable[[Any], Any]
_EXACT: Context = EXACT


class AvroRows:
    """Writes rows by a schema.

    Args:
        schema: its text.
        names: of the columns that are given, in their order.
        head: what stands before each value.
    """

    def __init__(self, schema: str, names: Sequence[str], *, head: bytes = b"") -> None:
        node = read(schema)
        self._schema = parse_schema(without_logical(json.loads(schema)))
        self._head = head
        kept = {
            name: _keeping(part, name) for name, part in zip(node.names, node.parts, strict=True)
        }
        self._given = [(name, kept[name]) for name in names]
        self._defaults = {
            name: kept[name](default_of(part, default, name))
            for name, part, default in zip(node.names, node.parts, node.defaults, strict=True)
            if name not in names and default is not NOTHING
        }

    def write(self, *arrays: pa.Array[Any]) -> tuple[pa.Array[Any], list[str | None]]:
        """Return the values of rows, and why rows have none."""
        return write_rows(arrays, self._written)

    def _written(self, row: Sequence[Any]) -> bytes:
        stream = io.BytesIO(self._head)
        stream.seek(len(self._head))
        made = dict(self._defaults)
        for (name, keep), value in zip(self._given, row, strict=True):
            made[name] = keep(value)
        try:
            schemaless_writer(stream, self._schema, made)
        except UnicodeEncodeError:
            raise
        except Exception as error:  # of many kinds; its text may have what stands there
            raise Misfit(f"no value of the schema ({type(error).__name__})") from None
        return stream.getvalue()


def head_of(
    schema: str, framing: str, registry: RegistryOptions | None, subject: str, register: bool
) -> bytes:
    """Return what stands before each value of a schema.

    Raises:
        TransientError: the registry was away for too long.
        PermanentError: it does not have the schema, or refuses it.
    """
    if registry is not None:
        from mainstem_registry.client import Schema

        return Schemas(registry, framing).head(subject, Schema(schema, "AVRO"), register=register)
    return mark_of(schema) if framing == "single_object" else b""


def _keeping(node: Node, path: str) -> _Keep:
    """Return what makes of a column's value, times as numbers, what is kept of it."""
    keep = _plain(node, path)

    def kept(value: Any) -> Any:
        if value is None:
            if not node.nullable:
                raise Misfit(f"{path} is null")
            return None
        return value if keep is None else keep(value)

    return kept


def _plain(node: Node, path: str) -> _Keep | None:
    word = node.word
    if word.endswith("millis"):

        def millis(value: int) -> int:
            if value % 1000:
                raise Misfit(f"{path} is finer than the milliseconds of the schema")
            return value // 1000

        return millis
    if word.endswith("-decimal"):
        return _decimal(node, path)
    if word == "enum":

        def symbol(value: str) -> str:
            if value not in node.symbols:
                raise Misfit(f"{path}: the schema has no such symbol")
            return value

        return symbol
    if word == "fixed":

        def fixed(value: bytes) -> bytes:
            if len(value) != node.size:
                raise Misfit(f"{path} has {len(value)} bytes, not {node.size}")
            return value

        return fixed
    if word == "array":
        each = _keeping(node.parts[0], f"{path}[]")
        return lambda items: [each(item) for item in items]
    if word == "map":
        inner = _keeping(node.parts[0], f"{path}{{}}")
        return lambda pairs: {key: inner(value) for key, value in pairs}
    if word == "record":
        fields = [
            (name, _keeping(part, f"{path}.{name}"))
            for name, part in zip(node.names, node.parts, strict=True)
        ]
        return lambda held: {name: keep(held[name]) for name, keep in fields}
    return None


def _decimal(node: Node, path: str) -> _Keep:
    def decimal(value: Any) -> bytes:
        whole = int(value.scaleb(node.scale, _EXACT))
        size = node.size or (whole.bit_length() // 8 + 1)
        try:
            return whole.to_bytes(size, "big", signed=True)
        except OverflowError:
            raise Misfit(f"{path} does not fit into {size} bytes") from None

    return decimal
