"""The operators pass the standard tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from mainstem_testkit.conformance.operator import OperatorSuite

FOLDER = str(Path(__file__).parent)


class TestDecide(OperatorSuite):
    use = "decide"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT"}
    event_time = {"input": "at"}

    def options(self):
        return {
            "call": "shop:Counter",
            "folder": FOLDER,
            "by": ["k"],
            "state": "count BIGINT",
            "events": "seen BIGINT",
        }


class TestDecideOnce(OperatorSuite):
    use = "decide"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT"}
    event_time = {"input": "at"}

    def options(self):
        return {
            "call": "shop:Counter",
            "folder": FOLDER,
            "by": ["k"],
            "state": "count BIGINT",
            "events": "seen BIGINT",
            "command": "v",
            "remember": "1 hour",
        }


class TestEvolve(OperatorSuite):
    use = "evolve"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT"}
    event_time = {"input": "at"}

    def options(self):
        return {"call": "shop:Counter", "folder": FOLDER, "by": ["k"], "state": "count BIGINT"}


@pytest.mark.in_turn
class TestUpcast(OperatorSuite):
    use = "upcast"
    inputs = {"input": "type STRING, version INT, payload STRING, at TIMESTAMP"}
    event_time = {"input": "at"}

    def options(self):
        return {"call": "test_upcast:Upcasts", "folder": FOLDER}
