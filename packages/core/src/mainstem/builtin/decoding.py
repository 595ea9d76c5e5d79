"""Readers of formats in Spark's plans: what a task calls for each of its batches of rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mainstem import Changes, ValueReader
from mainstem.arrays import arrow_call
from mainstem.contracts.ddl import Column, literal, parts_of, quoted
from mainstem.formats.words import word_of

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from mainstem.contracts.formats import Decoded, Several
    from mainstem.formats.arrow import Array

#: Why text that is JSON is no VARIANT.
NO_VARIANT = "has a key twice, or is too deep or too large for a VARIANT"


@dataclass(frozen=True)
class Decoding:
    """How values are read; it goes to the tasks, and each makes the reader ready there.

    `format` is the format's word, `changes` whether a value tells of changes, `many` whether it holds
    rows, `patterned` whether TIMESTAMPs come out as texts; `codec` is that of compressed values, `limit`
    how many bytes one may become.
    """

    format: str
    columns: tuple[Column, ...]
    reader: ValueReader
    changes: bool = False
    many: bool = False
    patterned: bool = False
    codec: str = ""
    limit: int = 0

    def call(self, *columns: SparkColumn) -> SparkColumn:
        """Return the struct of `c0`, `c1`, ... and `reason` that is read of columns of bytes."""
        return arrow_call(_Call(self), self.returned, *columns)

    @property
    def returned(self) -> str:
        """The type of what a call returns, in DDL."""
        fields = [f"c{n}: {self.written_type(c)}" for n, c in enumerate(self.columns)]
        if self.changes:
            row = ", ".join(["type: STRING", *fields])
            return f"STRUCT<changes: ARRAY<STRUCT<{row}>>, at: TIMESTAMP, reason: STRING>"
        if self.many:
            return f"STRUCT<rows: ARRAY<STRUCT<{', '.join(fields)}>>, reason: STRING>"
        return f"STRUCT<{', '.join([*fields, 'reason: STRING'])}>"

    def written_type(self, column: Column) -> str:
        """The type in which a column's values come out of a call."""
        if column.type == "timestamp" and self.patterned:
            return "STRING"
        return texts_for_variants(column.type or "")


class _Call:
    """What Spark sends to its workers."""

    def __init__(self, decoding: Decoding) -> None:
        self._decoding = decoding
        self.__name__ = f"read_{re.sub('[^a-z0-9]', '_', decoding.format.lower())}"

    def __call__(self, *arrays: Array) -> Array:
        return opened(self._decoding)(*arrays)


@lru_cache(maxsize=64)
def opened(decoding: Decoding) -> Callable[..., Array]:
    """Return what reads a batch in this process: arrays of bytes become one array of structs."""
    read = decoding.reader.open()
    into: Callable[[Any], Array] = structure
    if decoding.changes or decoding.many:
        into = _changes if decoding.changes else _several
    limit = (decoding.limit,) if decoding.many else ()

    def made(*arrays: Array) -> Array:
        return into(read(*arrays, *limit))

    return _decompressing(made, decoding) if decoding.codec else made


def _decompressing(made: Callable[..., Array], decoding: Decoding) -> Callable[..., Array]:
    from mainstem.formats import compression

    def read(values: Array, *more: Array) -> Array:
        from mainstem.formats.arrow import pa

        plain: list[bytes | None] = []
        flaws: dict[int, str] = {}
        for index, value in enumerate(values.to_pylist()):
            plain.append(None)
            try:
                if value is not None:
                    codec: Any = decoding.codec
                    plain[-1] = compression.decompress(value, codec, decoding.limit)
            except compression.NotCompressed as flaw:
                flaws[index] = str(flaw)
        found = made(pa.array(plain, pa.binary()), *more)
        if not flaws:
            return found
        arrays = found.flatten()
        reasons = arrays[-1].to_pylist()
        for index, reason in flaws.items():
            reasons[index] = reason
        arrays[-1] = pa.array(reasons, pa.string())
        return pa.StructArray.from_arrays(arrays, fields=list(found.type))

    return read


def structure(decoded: Decoded) -> Array:
    """Return columns and reasons as one struct."""
    from mainstem.formats.arrow import pa

    arrays, reasons = decoded
    names = [*(f"c{number}" for number in range(len(arrays))), "reason"]
    return pa.StructArray.from_arrays([*arrays, pa.array(reasons, pa.string())], names)


def _several(made: Several) -> Array:
    """Return the rows of each message as one struct for each."""
    from mainstem.formats.arrow import pa

    rows = pa.StructArray.from_arrays(made.rows, [f"c{n}" for n in range(len(made.rows))])
    offsets = pa.array([0, *made.ends], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, rows)
    return pa.StructArray.from_arrays(
        [lists, pa.array(made.reasons, pa.string())], ["rows", "reason"]
    )


def _changes(made: Changes) -> Array:
    """Return changes as one struct for each message."""
    from mainstem.formats.arrow import pa

    names = ["type", *(f"c{number}" for number in range(len(made.rows)))]
    rows = pa.StructArray.from_arrays([pa.array(made.kinds, pa.string()), *made.rows], names)
    offsets = pa.array([0, *made.ends], pa.int32())
    at = pa.array(made.committed, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.StructArray.from_arrays(
        [pa.ListArray.from_arrays(offsets, rows), at, pa.array(made.reasons, pa.string())],
        ["changes", "at", "reason"],
    )


# -- variants -------------------------------------------------------------------------------


def texts_for_variants(kind: str) -> str:
    """Return a type with STRING in the place of each VARIANT."""
    word = word_of(kind)
    if word == "variant":
        return "string"
    inner = [texts_for_variants(part.type or "") for part in parts_of(kind)]
    if word == "struct":
        names = (quoted(part.name) for part in parts_of(kind))
        fields = ",".join(f"{name}:{type_}" for name, type_ in zip(names, inner, strict=True))
        return f"struct<{fields}>"
    return f"{word}<{','.join(inner)}>" if inner else kind


def with_variants(value: str, kind: str, depth: int = 0) -> str:
    """Return SQL that makes VARIANTs of the JSON texts in a value; null is what can't be one.

    Args:
        value: SQL for the value, of type `texts_for_variants(kind)`.
        depth: how many lambdas the SQL will stand in.
    """
    if "variant" not in kind:
        return value
    word, parts, each = word_of(kind), parts_of(kind), f"__v{depth}"
    if word == "variant":
        return f"try_parse_json({value})"
    if word == "struct":
        made = (
            f"{literal(p.name)}, {with_variants(f'{value}.{quoted(p.name)}', p.type or '', depth)}"
            for p in parts
        )
        return f"IF({value} IS NULL, NULL, named_struct({', '.join(made)}))"
    inner = with_variants(each, parts[-1].type or "", depth + 1)
    if word == "array":
        return f"transform({value}, {each} -> {inner})"
    return f"transform_values({value}, (__k{depth}, {each}) -> {inner})"


def unread_variants(value: str, kind: str, depth: int = 0) -> str | None:
    """Return SQL for whether `with_variants` makes null of a text in a value; None if it can't."""
    if "variant" not in kind:
        return None
    word, parts, each = word_of(kind), parts_of(kind), f"__u{depth}"
    if word == "variant":
        return f"({value} IS NOT NULL AND try_parse_json({value}) IS NULL)"
    if word == "struct":
        fields = (unread_variants(f"{value}.{quoted(p.name)}", p.type or "", depth) for p in parts)
        return f"({' OR '.join(filter(None, fields))})"
    held = value if word == "array" else f"map_values({value})"
    inner = unread_variants(each, parts[-1].type or "", depth + 1)
    return f"coalesce(exists({held}, {each} -> {inner}), false)"
