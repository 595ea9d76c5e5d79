"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Operator, Sink, hookimpl

from mainstem_operators_privacy.operators import Decrypt, Encrypt
from mainstem_operators_privacy.sink import ForgetSink


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {"decrypt": Decrypt, "encrypt": Encrypt}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"forget": ForgetSink}
