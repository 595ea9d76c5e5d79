"""Values of documents as they are printed, and what reads them again."""

from __future__ import annotations

from collections.abc import Mapping

from mainstem_cdc import READERS, Misfit, Reader


def has_reader(kind: str) -> bool:
    """Whether values can have a type, in Spark's short form."""
    return kind.partition("(")[0] in _READERS


def reader(kind: str) -> Reader:
    """Return what makes values of a type.

    Raises:
        KeyError: there is none; see `has_reader`.
    """
    return _READERS[kind.partition("(")[0]]


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise Misfit("no boolean")
    return text == "true"


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise Misfit("no bytes")
    return bytes.fromhex(text[2:])


_READERS: Mapping[str, Reader] = {**READERS, "boolean": _boolean, "binary": _bytes}
