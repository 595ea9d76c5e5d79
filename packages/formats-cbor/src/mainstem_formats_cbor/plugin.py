"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_formats() -> dict[str, str]:
    return {"cbor": "mainstem_formats_cbor.format:Cbor"}
