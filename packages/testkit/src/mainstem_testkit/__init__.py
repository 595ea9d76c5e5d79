"""The test kit for Mainstem plugins: real servers, faults, kills on demand, conformance suites."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainstem_testkit.crashing import crash_at_every_point, crash_points
from mainstem_testkit.pipelines import PipelineFolder, Process, wait_for

if TYPE_CHECKING:
    from mainstem_testkit.conformance.operator import OperatorSuite as OperatorSuite
    from mainstem_testkit.conformance.sink import SinkSuite as SinkSuite
    from mainstem_testkit.conformance.source import SourceSuite as SourceSuite

__all__ = [
    "OperatorSuite",
    "PipelineFolder",
    "Process",
    "SinkSuite",
    "SourceSuite",
    "crash_at_every_point",
    "crash_points",
    "wait_for",
]

_SUITES = {"OperatorSuite": "operator", "SinkSuite": "sink", "SourceSuite": "source"}


def __getattr__(name: str) -> Any:
    """Load a suite when it is first used: every pytest run imports this module."""
    if name in _SUITES:
        return getattr(import_module(f"mainstem_testkit.conformance.{_SUITES[name]}"), name)
    raise AttributeError(name)
