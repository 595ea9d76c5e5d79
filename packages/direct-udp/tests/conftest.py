"""Lets the tests share `udp_peers`, and closes the senders that they make."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from udp_peers import Sender


@pytest.fixture
def senders():
    """Makes senders."""
    made = []

    def make(port, group=None):
        made.append(Sender(port, group))
        return made[-1]

    yield make
    for each in made:
        each.close()
