"""Lets the tests share `zeromq_peers`, and closes the peers that they make."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from zeromq_peers import Peers


@pytest.fixture
def peers() -> Iterator[Peers]:
    """Makes peers of bare pyzmq."""
    with Peers() as peers:
        yield peers
