"""Lets the tests of Kafka share their helpers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def topics(kafka):
    """Makes topics of a test's own and looks at them; see `kafka_topics.Topics`."""
    from kafka_topics import Topics

    return Topics(kafka)


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """A node whose clients all come through a proxy; see `ksink_proxy.Behind`."""
    from ksink_proxy import Behind

    with Behind(tmp_path_factory.mktemp("kafka-behind")) as made:
        yield made
