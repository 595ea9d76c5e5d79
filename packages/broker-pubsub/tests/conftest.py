"""The fake behind a way that can be shut: it forgets all when it ends. Tests share their helper modules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mainstem_testkit.proxy import Afar, FaultProxy

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def pubsub_afar(pubsub):
    """The fake, which keeps its topics while it is away."""
    with FaultProxy(pubsub.port) as proxy:
        yield Afar(pubsub, proxy)
