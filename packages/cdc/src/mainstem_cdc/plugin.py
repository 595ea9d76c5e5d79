"""Wires the words of this distribution."""

from __future__ import annotations

from mainstem import Operator, hookimpl

from mainstem_cdc.outbox import Outbox


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {"outbox": Outbox}
