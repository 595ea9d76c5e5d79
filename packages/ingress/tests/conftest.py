"""Lets the tests of the ingress log, and the processes that they start, share `ingress_far`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from ingress_far import Far
from mainstem_ingress.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """The log in a new folder."""
    return Log(tmp_path / "log")


@pytest.fixture
def far() -> Iterator[Far]:
    """A far side that listens."""
    with Far() as far:
        yield far
