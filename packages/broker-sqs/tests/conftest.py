"""The emulator behind a way that can be shut: started again it answers before it has its queues."""

from __future__ import annotations

import pytest
from mainstem_testkit.proxy import Afar, FaultProxy


@pytest.fixture
def elasticmq_afar(elasticmq):
    """The emulator, which keeps its queues while it is away."""
    with FaultProxy(elasticmq.port) as proxy:
        yield Afar(elasticmq, proxy)
