"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Format, hookimpl

from mainstem_formats_cbor.format import Cbor


@hookimpl
def mainstem_formats() -> dict[str, type[Format]]:
    return {"cbor": Cbor}
