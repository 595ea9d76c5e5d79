"""Wires the command and the operator of this distribution."""

from __future__ import annotations

from mainstem import Operator, hookimpl

from mainstem_keyed_state.commands import show
from mainstem_keyed_state.python_by_key import PythonByKey

app = show


@hookimpl
def mainstem_operators() -> dict[str, type[Operator]]:
    return {"python_by_key": PythonByKey}
