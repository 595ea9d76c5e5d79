"""The test kit for Mainstem plugins: real servers, faults, kills on demand, conformance suites."""

from mainstem_testkit.crashing import crash_at_every_point, crash_points
from mainstem_testkit.pipelines import PipelineFolder, Process, wait_for

__all__ = ["PipelineFolder", "Process", "crash_at_every_point", "crash_points", "wait_for"]
