"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {
        "decrypt": "mainstem_operators_privacy.operators:Decrypt",
        "encrypt": "mainstem_operators_privacy.operators:Encrypt",
    }


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {"forget": "mainstem_operators_privacy.sink:ForgetSink"}
