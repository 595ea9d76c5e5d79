"""Lets the tests of the ingress log, and the processes that they start, share `ingress_far`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from ingress_far import HERE, Far
from mainstem_ingress.log import Log
from mainstem_testkit import install


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """The log in a new folder."""
    return Log(tmp_path / "log")


@pytest.fixture
def far() -> Iterator[Far]:
    """A far side that listens."""
    with Far() as far:
        yield far


@pytest.fixture
def far_plugin(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, and those that it starts, find the far side's words."""
    words = dict.fromkeys(("far_queue", "far_stream", "far_tables"), "ingress_far_plugin")
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    install(monkeypatch, tmp_path_factory.mktemp("site"), "ingress-far", sources=words)
