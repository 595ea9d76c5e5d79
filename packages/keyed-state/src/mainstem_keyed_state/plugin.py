"""Wires the command of this distribution."""

from __future__ import annotations

from mainstem_keyed_state.commands import show

app = show
