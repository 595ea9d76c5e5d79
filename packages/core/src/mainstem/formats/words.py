"""The words of types, without Arrow: for plans."""

from __future__ import annotations

import re
from typing import Literal

from mainstem.contracts.ddl import parts_of

#: How single values can be compressed.
Codec = Literal["gzip", "zstd", "snappy", "lz4"]

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def word_of(kind: str) -> str:
    """Return the word a type begins with: `decimal`, `array`; that of text for `varchar(3)`."""
    word = re.split(r"[(<]", kind, maxsplit=1)[0]
    return "string" if word in ("varchar", "char") else word


def decimal_of(kind: str) -> tuple[int, int]:
    """Return the precision and the scale of a DECIMAL."""
    found = _DECIMAL.fullmatch(kind)
    if found is None:
        raise ValueError(f"{kind} is no decimal")
    return int(found[1]), int(found[2])


def unwritten(kind: str, *, nested: bool) -> str | None:
    """Return the type in a type of which a format has no values; None if it has all.

    Args:
        kind: Spark's short form.
        nested: whether the format has values in values.
    """
    word = word_of(kind)
    if word.startswith("interval") or (
        not nested and word in ("array", "map", "struct", "variant")
    ):
        return kind
    if word == "map" and unwritten(parts_of(kind)[0].type or "", nested=False):
        return kind  # a key is a text
    found = (unwritten(part.type or "", nested=nested) for part in parts_of(kind))
    return next(filter(None, found), None)
