"""The hooks of a plugin module, in pluggy's terms.

A plugin's `plugin.py` implements the hook of each kind it has components of, and returns its words
with their classes, or with their places as entry points write them (`package.module:Class`): what is
named so is imported when its word is asked for, so a pipeline pays for what it uses alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from mainstem.contracts.components import Delivery, Operator, Sink, Source, StateStore
    from mainstem.contracts.formats import Format
    from mainstem.observation.observers import Observer

hookspec = pluggy.HookspecMarker("mainstem")
hookimpl = pluggy.HookimplMarker("mainstem")


@hookspec
def mainstem_sources() -> Mapping[str, type[Source] | str]:
    """Return the sources of this module, by the words that documents use for them."""
    raise NotImplementedError


@hookspec
def mainstem_operators() -> Mapping[str, type[Operator] | str]:
    """Return the operators of this module, by their words."""
    raise NotImplementedError


@hookspec
def mainstem_sinks() -> Mapping[str, type[Sink] | str]:
    """Return the sinks of this module, by their words."""
    raise NotImplementedError


@hookspec
def mainstem_state_stores() -> Mapping[str, type[StateStore] | str]:
    """Return the state stores of this module, by their words."""
    raise NotImplementedError


@hookspec
def mainstem_delivery() -> Mapping[str, type[Delivery] | str]:
    """Return the delivery strategies of this module, by their words."""
    raise NotImplementedError


@hookspec
def mainstem_formats() -> Mapping[str, type[Format] | str]:
    """Return the formats of this module, by their words."""
    raise NotImplementedError


@hookspec
def mainstem_observers() -> Mapping[str, type[Observer] | str]:
    """Return the observers of this module, by their words."""
    raise NotImplementedError
