"""Wires the command and the operator of this distribution."""

from __future__ import annotations

from mainstem import hookimpl

from mainstem_keyed_state.commands import show

app = show


@hookimpl
def mainstem_operators() -> dict[str, str]:
    return {"python_by_key": "mainstem_keyed_state.python_by_key:PythonByKey"}
