"""The test kit for Mainstem plugins: real servers, faults, kills on demand, conformance suites."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem_testkit.conformance.delivery import DeliverySuite as DeliverySuite
    from mainstem_testkit.conformance.format import FormatSuite as FormatSuite
    from mainstem_testkit.conformance.map_format import MapFormatSuite as MapFormatSuite
    from mainstem_testkit.conformance.operator import OperatorSuite as OperatorSuite
    from mainstem_testkit.conformance.position_log import PositionLogSuite as PositionLogSuite
    from mainstem_testkit.conformance.receiver import ReceiverSuite as ReceiverSuite
    from mainstem_testkit.conformance.sender import SenderSuite as SenderSuite
    from mainstem_testkit.conformance.sink import SinkSuite as SinkSuite
    from mainstem_testkit.conformance.source import SourceSuite as SourceSuite
    from mainstem_testkit.crashing import crash_at_every_point as crash_at_every_point
    from mainstem_testkit.crashing import crash_points as crash_points
    from mainstem_testkit.distributions import install as install
    from mainstem_testkit.pipelines import PipelineFolder as PipelineFolder
    from mainstem_testkit.pipelines import Process as Process
    from mainstem_testkit.pipelines import wait_for as wait_for
    from mainstem_testkit.plugin import serve as serve
    from mainstem_testkit.server import Server as Server

_HOMES = {
    "DeliverySuite": "conformance.delivery",
    "FormatSuite": "conformance.format",
    "MapFormatSuite": "conformance.map_format",
    "OperatorSuite": "conformance.operator",
    "PipelineFolder": "pipelines",
    "PositionLogSuite": "conformance.position_log",
    "Process": "pipelines",
    "ReceiverSuite": "conformance.receiver",
    "SenderSuite": "conformance.sender",
    "Server": "server",
    "SinkSuite": "conformance.sink",
    "SourceSuite": "conformance.source",
    "crash_at_every_point": "crashing",
    "crash_points": "crashing",
    "install": "distributions",
    "serve": "plugin",
    "wait_for": "pipelines",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: every pytest run imports this module."""
    if name in _HOMES:
        return getattr(import_module(f"mainstem_testkit.{_HOMES[name]}"), name)
    raise AttributeError(name)
