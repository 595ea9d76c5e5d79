"""Wires the zoo's words to its components."""

from __future__ import annotations

from mainstem import hookimpl

from zoo.deliveries import DELIVERIES
from zoo.operators import OPERATORS
from zoo.receivers import RECEIVERS
from zoo.sinks import SINKS
from zoo.sources import SOURCES

WORDS = {
    "sources": {**SOURCES, **RECEIVERS},
    "operators": OPERATORS,
    "sinks": SINKS,
    "delivery": DELIVERIES,
}


@hookimpl
def mainstem_sources():
    return {**SOURCES, **RECEIVERS}


@hookimpl
def mainstem_operators():
    return OPERATORS


@hookimpl
def mainstem_sinks():
    return SINKS


@hookimpl
def mainstem_delivery():
    return DELIVERIES
